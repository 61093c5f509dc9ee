"""Counts and times of a server, in Prometheus' text format (version 0.0.4)."""

from collections import Counter
from collections.abc import Iterable

_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds
_NAMES = {
    "requests_total": ("counter", "Requests by path and HTTP status (499: hung up); streams as they begin."),
    "prompt_tokens_total": ("counter", "Tokens of prompts."),
    "answer_tokens_total": ("counter", "Tokens of answers."),
    "running": ("gauge", "Answers that are being made."),
    "waiting": ("gauge", "Answers that have not begun.")}
_TIMES = {"first_token_seconds": "Seconds from a request to the first token of its answer.",
          "request_seconds": "Seconds from a request to the end of its answer."}  # fmt: skip
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters and histograms of a server."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self._times: dict[tuple[str, Labels], list[float]] = {}  # number below each bound, of all, and their sum

    def count(self, name: str, number: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._counts[name, tuple(sorted(labels.items()))] += number  # type: ignore[assignment]

    def time(self, name: str, seconds: float, **labels: str) -> None:
        """Add to a histogram."""
        row = self._times.setdefault((name, tuple(sorted(labels.items()))), [0.0] * (len(_BOUNDS) + 2))
        for at, bound in enumerate(_BOUNDS):
            row[at] += seconds <= bound
        row[-2] += 1
        row[-1] += seconds

    def text(self, gauges: Iterable[tuple[str, float, dict[str, str]]]) -> str:
        """Write all of them. `gauges`: name, value and labels of what is measured now."""
        now = [(name, tuple(sorted(labels.items())), value) for name, value, labels in gauges]
        rows = [(name, labels, float(value)) for (name, labels), value in self._counts.items()] + now
        lines: list[str] = []
        for name, (kind, about) in _NAMES.items():
            lines += [f"# HELP argosy_{name} {about}", f"# TYPE argosy_{name} {kind}"]
            lines += [f"argosy_{name}{_written(labels)} {value:g}" for each, labels, value in rows if each == name]
        for name, about in _TIMES.items():
            lines += [f"# HELP argosy_{name} {about}", f"# TYPE argosy_{name} histogram"]
            for (each, labels), row in self._times.items():
                if each == name:
                    lines += _histogram(f"argosy_{name}", labels, row)
        return "\n".join(lines) + "\n"


def _histogram(name: str, labels: Labels, row: list[float]) -> list[str]:
    bounds = [*(f"{bound:g}" for bound in _BOUNDS), "+Inf"]
    below = [f"{name}_bucket{_written((*labels, ('le', bound)))} {row[at]:g}" for at, bound in enumerate(bounds)]
    return [*below, f"{name}_count{_written(labels)} {row[-2]:g}", f"{name}_sum{_written(labels)} {row[-1]:g}"]


def _written(labels: Labels) -> str:
    if not labels:
        return ""
    quoted = (value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for _, value in labels)
    return "{" + ",".join(f'{name}="{value}"' for (name, _), value in zip(labels, quoted, strict=True)) + "}"
