"""The kind of a metric in a comparison: its place on the page, and the declaration of its maker."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from argosy.core.statistics.metric import Better, Metric, find
from argosy.evidence.judging.metrics import METRICS as JUDGE_METRICS
from argosy.evidence.results.findings import METRICS as RESULTS
from argosy.model.post import POSTTRAINING

HEADLINE = "headline"
UNDECLARED = "its kind is not declared"


@dataclass(frozen=True)
class Kind(Metric):
    """A metric in a comparison: its declaration, its family, and its short name there."""

    better: Better = "neither"
    family: str = ""
    short: str = ""
    declared: bool = True


def kind_of(name: str, declared: Mapping[str, Metric] | None = None) -> Kind:
    """The kind of a metric: as `declared` by its results, else as its maker's table has it; where neither does, it is
    not declared, and no direction is told."""
    family, short = place_of(name)
    metric = (declared or {}).get(name) or known(name)
    if metric is None:
        return Kind(family=family, short=short, declared=False)
    return Kind(metric.better, metric.unit, metric.matters, metric.minor, metric.chance, family, short)


@cache
def known(name: str) -> Metric | None:
    """The declaration of a metric whose results carry none; None where no table has it."""
    return next((found for of in (POSTTRAINING, RESULTS, JUDGE_METRICS) if (found := find(name, of)) is not None), None)


_LANG = re.compile(r"^(.+)_(ar|de|en|es|fr|hi|id|it|ja|ko|nl|pl|pt|ru|sv|sw|th|tr|uk|vi|zh)$")


@cache
def place_of(name: str) -> tuple[str, str]:
    """The family that a metric is shown with, and its name within it."""
    parts = name.split("/")
    rest = "/".join(parts[2:])
    if parts[0] == "bench" and len(parts) == 4:
        split = _LANG.match(parts[1])
        short = parts[2] if parts[3] == "acc" else f"{parts[2]} {parts[3]}"
        return (split[1], f"{split[2]}: {short}") if split else (parts[1], short)
    if parts[0] == "heldout" and rest:
        return "held-out text", rest if parts[1] == "bpb" else f"{rest} {parts[1]}"
    if parts[0] == "probe" and len(parts) >= 4:
        family = "probes" if parts[1] == "probes" else f"probes: {parts[1]}"
        return family, f"{'/'.join(parts[2:-1])} {parts[-1]}"
    if parts[0] == "memorisation" and rest:
        return "memorisation", f"{rest} {parts[1]}"
    return (parts[0] if len(parts) > 1 else "other"), "/".join(parts[1:]) or name


def chances(kinds: Mapping[str, Kind]) -> set[str]:
    """The metrics that hold the score of guessing at others: they are of the questions, not of a model."""
    return {f"{name.rpartition('/')[0]}/{kind.chance}" for name, kind in kinds.items()
            if isinstance(kind.chance, str)} | {name for name in kinds if name.endswith("/chance")}


def scale_of(name: str, kind: Kind) -> str:
    """The name of the scale that a metric is drawn on: shares have one together, probabilities too, and each unit."""
    return ("%" if kind.share else "probability" if kind.probability else
            kind.unit or f"{kind.family}/{name.rpartition('/')[2]}")


def families(names: Collection[str]) -> list[str]:
    """Families in the order of reading: benchmarks, held-out text, probes, others."""
    found = {place_of(name)[0]: name.partition("/")[0] for name in names}
    first = {"bench": 0, "heldout": 1, "probe": 2}
    return sorted(found, key=lambda family: (first.get(found[family], 3), family))


def order(name: str, kind: Kind) -> tuple[object, ...]:
    """The place of a metric in its family: the headline, then the published form, then by name."""
    parts = name.split("/")
    variant = parts[2] if parts[0] == "bench" and len(parts) == 4 else ""
    split = bool(variant and _LANG.match(parts[1]))
    return (variant != HEADLINE, split, variant != "plain", kind.minor, kind.short)
