"""The kind of a metric, declared once where the metric is made.

A maker gives every metric with its kind, `findings.add("bench/facts/plain/acc", estimate, ACCURACY)`, and results.json
carries the kinds (`kinds`). A comparison reads them there and guesses nothing from a name."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, Literal

Better = Literal["higher", "lower", "zero", "neither"]
SHARE = "share"  # the unit of shares: shown in per cent, differences in points
POINTS, BITS = 0.02, 0.01  # the smallest difference of a share, and of bits or nats, that one would act on


@dataclass(frozen=True)
class Metric:
    """The kind of a metric.

    Args:
        better: which way is better; `zero`: the nearer 0 the better; `neither`: no way is, or it depends.
        unit: of values and differences; `share`: a part of cases in which something holds; "": none, or unknown.
        matters: the smallest difference that one would act on, in the metric's own unit; None: its scale is unknown.
        minor: whether only `--all` shows it, since it repeats another metric or is a measure of form.
        chance: the score of guessing, or the name of the sibling metric that has it (`chance`)."""

    better: Better
    unit: str = ""
    matters: float | None = None
    minor: bool = False
    chance: float | str | None = None

    @property
    def share(self) -> bool:
        """Whether it is shown in per cent."""
        return self.unit == SHARE

    @property
    def probability(self) -> bool:
        """Whether it is a number from 0 to 1 that is no share of cases."""
        return not self.unit and self.matters == POINTS

    @property
    def centred(self) -> bool:
        """Whether nearer 0 is better: differences are of the distances from 0."""
        return self.better == "zero"

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower or nearer 0 is, 0 where neither is."""
        return {"higher": 1, "lower": -1, "zero": -1, "neither": 0}[self.better]

    def goodness(self, value: float) -> float:
        """A number that is larger where the metric is better; the value itself where neither way is."""
        return (self.sign or 1) * (abs(value) if self.centred else value)


def share(better: Better = "higher", *, minor: bool = False, chance: float | str | None = None) -> Metric:
    """A share of cases (right answers, faults), of which 2 points matter."""
    return Metric(better, SHARE, POINTS, minor, chance)


def probability(better: Better = "higher", *, minor: bool = False, chance: float | str | None = None) -> Metric:
    """A number from 0 to 1 that is no share of cases, of which 0.02 matters."""
    return Metric(better, "", POINTS, minor, chance)


def find(name: str, kinds: Mapping[str, Metric]) -> Metric | None:
    """The kind of a metric: of its name, else of the first pattern (`heldout/bpb/*`) that it matches."""
    if name in kinds:
        return kinds[name]
    return next((kind for pattern, kind in kinds.items() if fnmatchcase(name, pattern)), None)


def as_records(kinds: Mapping[str, Metric]) -> list[dict[str, Any]]:
    """Kinds as JSON has them: each kind once, with the names of its metrics."""
    names: dict[Metric, list[str]] = {}
    for name, kind in sorted(kinds.items()):
        names.setdefault(kind, []).append(name)
    return [{**_set(kind), "metrics": some} for kind, some in names.items()]


def from_records(records: Iterable[Mapping[str, Any]]) -> dict[str, Metric]:
    """The kinds that `as_records` wrote; fields of a newer version are passed over."""
    known = {field.name for field in fields(Metric)}
    return {name: Metric(**{key: value for key, value in record.items() if key in known})
            for record in records for name in record["metrics"]}


def _set(kind: Metric) -> dict[str, Any]:
    default = Metric(kind.better)
    return {name: value for name, value in asdict(kind).items() if name == "better" or value != getattr(default, name)}
