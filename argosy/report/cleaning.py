"""What cleaning did, from the clean step's report.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Funnel:
    """One channel; dropped: (filter, documents, "n reason; n reason"), the biggest first."""

    channel: str
    came: int
    kept: int
    bytes_in: int
    bytes_out: int
    dropped: list[tuple[str, int, str]]
    changed: list[tuple[str, int]]


@dataclass(frozen=True)
class Cleaning:
    """samples: by filter, (channel, reason, text)."""

    funnels: list[Funnel]
    samples: dict[str, list[tuple[str, str, str]]]
    found: dict[str, dict[str, int]]
    contamination: dict[str, int]  # records of each file for post-training that hold a benchmark item

    @property
    def came(self) -> int:
        """Documents in."""
        return sum(f.came for f in self.funnels)

    @property
    def kept(self) -> int:
        """Documents out."""
        return sum(f.kept for f in self.funnels)


def cleaning(report: Mapping[str, Any]) -> Cleaning | None:
    """None where there is no report."""
    if not report.get("channels"):
        return None
    samples: dict[str, list[tuple[str, str, str]]] = {}
    for s in report.get("samples", []):
        samples.setdefault(s["filter"], []).append((s["channel"], s["reason"], s["text"]))
    return Cleaning([_funnel(name, counts) for name, counts in sorted(report["channels"].items())],
                    dict(sorted(samples.items())), report.get("found", {}), report.get("contamination", {}))


def _funnel(channel: str, counts: Mapping[str, Any]) -> Funnel:
    dropped = [(name, sum(reasons.values()), _reasons(reasons)) for name, reasons in counts["dropped"].items()]
    return Funnel(channel, counts["in"], counts["out"], counts["bytes_in"], counts["bytes_out"],
                  sorted((d for d in dropped if d[1]), key=lambda d: -d[1]), sorted(counts["changed"].items()))


def _reasons(reasons: Mapping[str, int]) -> str:
    return "; ".join(f"{n} {reason}" for reason, n in sorted(reasons.items(), key=lambda r: (-r[1], r[0])))
