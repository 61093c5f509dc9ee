"""Watch over a phase: readings of each step against their course, by robust statistics.

The course of a reading is a resistant line (Tukey 1977) through its latest values, which follows a falling loss; its
noise is by the median and the 90th percentile of the distances from it, so that neither a few outliers widen it much
nor a channel of odd documents raises an alarm."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, NamedTuple

from argosy.model.train.config.watch import WatchConfig

LOSS, NORM, UPDATE = "train/loss", "train/grad_norm", "train/update_size"
RATE, REPEATED = "train/lr", "train/repeated"
Reading = tuple[float, float]  # value and weight, the number of targets that it is a mean of
_FEWEST, _EARLY = 16, 24  # values that make a course, at least, and in the first phase at most
_STEPS = 32  # of a median by which a drift is found; of silence after an alarm
# a single large gradient is clipped, and does no harm
_IN_A_ROW = {"spike": 1, "collapse": 3, "wild": 5, NORM: 3, UPDATE: 3, REPEATED: 1}
_WILD = 1.25  # times the loss of a guess; a new model is above it by some hundredths
_DRIFT, _DRIFT_NOISE = 0.05, 0.3  # least rise of such a median, and its share of `deviations`


class Limits(NamedTuple):
    """The least rise and fall that are trouble, as shares of the course; the least of both in the reading's unit."""

    rise: float = math.inf
    fall: float = math.inf
    least: float = 0.0


WATCHED = {
    LOSS: Limits(0.1, 0.1, 0.02),  # of a channel too
    NORM: Limits(rise=2.0),
    UPDATE: Limits(rise=1.0, least=0.01),  # over the learning rate
    RATE: Limits(rise=1.0),
    REPEATED: Limits(rise=1.0, least=0.5),
    "rlhf/kl": Limits(rise=2.0, least=0.05),
    "rlhf/reward": Limits(fall=0.5, least=0.05),
    "rlhf/length": Limits(1.0, 0.5, 1.0),
    "rlhf/entropy": Limits(fall=0.5, least=0.05),
}


def is_loss(name: str) -> bool:
    """Tell whether a reading is the loss, or that of a channel."""
    return name == LOSS or name.startswith(f"{LOSS}/")


@dataclass(frozen=True)
class Trouble:
    """Trouble of a step: its kind, the reading, what was expected of it, and the step in which it began."""

    kind: str
    name: str
    value: float
    expected: float
    deviations: float
    since: int


class Course(NamedTuple):
    """The next value if it is high, if it is low, and the noise of one."""

    high: float
    low: float
    noise: float


def course(values: Sequence[float]) -> Course:
    """Return what the value after `values` should be."""
    half, size = len(values) // 2, len(values)
    old, new = median(values[:half]), median(values[half:])
    slope = (new - old) / (size - half)
    middle = (half + size - 1) / 2
    distances = sorted(abs(value - new - slope * (at - middle)) for at, value in enumerate(values))
    noise = max(distances[half] / 0.6745, distances[int(0.9 * size)] / 1.645)  # of a normal distribution
    ahead = new + slope * (size - middle)
    return Course(max(new, ahead), min(new, ahead), noise)


@dataclass
class Series:
    """The latest values of a reading, with their weights, and its alarms.

    Attributes:
        rows: steps in a row that were far from the course, since step `since`.
        side: 1 above, -1 below.
        quiet: step until which nothing is said of it.
        best: lowest median so far."""

    values: list[float]
    weights: list[float]
    rows: int = 0
    side: int = 0
    since: int = 0
    quiet: int = 0
    best: float = math.inf

    def see(self, step: int, name: str, reading: Reading, config: WatchConfig, factor: float = 1.0,
            guess: float = math.inf) -> Trouble | None:
        """Judge a reading by those before it, or by what a `guess` has where these are few, and add it, without
        `factor`, to them."""
        few = len(self.values) < _FEWEST
        found = self._wild(step, name, reading[0], guess) if few else self._judge(step, name, reading, config)
        for kept, new in zip((self.values, self.weights), (reading[0] / factor, reading[1]), strict=True):
            kept.append(new)
            del kept[: -config.window]
        if name == LOSS and found is None and 2 * len(self.values) >= config.window:
            found = self._drift(step, config)
        if found:
            self.rows, self.quiet = 0, step + _STEPS
        return found

    def _wild(self, step: int, name: str, value: float, guess: float) -> Trouble | None:
        self.rows = self.rows + 1 if value > _WILD * guess else 0
        if self.rows < _IN_A_ROW["wild"] or step <= self.quiet:
            return None
        return Trouble("wild", name, value, guess, math.inf, step - self.rows + 1)

    def _judge(self, step: int, name: str, reading: Reading, config: WatchConfig) -> Trouble | None:
        (value, weight), limits = reading, WATCHED[LOSS if is_loss(name) else name]
        early = step <= config.early  # where the course is steep: the latest values alone are nearly a line
        high, low, noise = course(self.values[-_EARLY:] if early else self.values)
        noise *= math.sqrt(max(1.0, sum(self.weights) / len(self.weights) / max(weight, 1.0)))
        far = config.deviations * (0.75 if early else 1.0)
        side = 0
        # Not `inf * 0`, which is no number: a limit that is infinite is never passed.
        if limits.rise < math.inf and value - high > max(far * noise, limits.rise * abs(high), limits.least):
            side = 1
        elif (limits.fall < math.inf and low - value > max(far * noise, limits.fall * abs(low), limits.least)
              and 2 * len(self.values) >= config.window):
            side = -1
        if side != self.side or not self.rows:
            self.rows, self.since = 0, step
        self.side, self.rows = side, self.rows + abs(side)
        kind, expected = ("spike", high) if side > 0 else ("collapse", low)
        kind, expected = "collapse" if name == REPEATED else kind, self.values[-1] if name == RATE else expected
        if not side or self.rows < _IN_A_ROW.get(name, _IN_A_ROW[kind]) or step <= self.quiet:
            return None
        return Trouble(kind, name, value, expected, abs(value - expected) / max(noise, 1e-9), self.since)

    def _drift(self, step: int, config: WatchConfig) -> Trouble | None:
        now, noise = median(self.values[-_STEPS:]), course(self.values).noise
        self.best = min(self.best, now)
        if step <= self.quiet or now - self.best <= max(
                _DRIFT * abs(self.best), _DRIFT_NOISE * config.deviations * noise):
            return None
        found = Trouble("drift", LOSS, now, self.best, (now - self.best) / max(noise, 1e-9), step)
        self.best = now
        return found


class Watch:
    """The series of a phase, in which `guess` is the loss of who knows nothing, where that has a bound."""

    def __init__(self, config: WatchConfig, guess: float = math.inf) -> None:
        self._config, self._guess = config, guess
        self._series: dict[str, Series] = {}

    def see(self, step: int, readings: Mapping[str, Reading], factor: float = 1.0) -> Trouble | None:
        """Judge the readings of optimizer step `step` (1, 2, ...), whose learning rate was lowered by `factor`; returns
        the worst trouble that they show.

        Numbers that are not finite come before all else, and do not enter the series."""
        for name, (value, _) in readings.items():
            if not math.isfinite(value):
                return Trouble("nonfinite", name, value, math.nan, math.inf, step)
        troubles = [trouble for name, (value, weight) in readings.items() if (trouble := self._judged(
            step, name, (value, weight), factor if name == RATE else 1.0, readings.get(RATE, (1.0, 1.0))[0]))]
        return max(troubles, key=lambda trouble: (trouble.kind != "drift", trouble.name in (RATE, REPEATED),
                                                  is_loss(trouble.name), trouble.deviations), default=None)

    def _judged(self, step: int, name: str, reading: Reading, factor: float, rate: float) -> Trouble | None:
        series = self._series.setdefault(name, Series([], []))
        if name != UPDATE or rate <= 0:
            return series.see(step, name, reading, self._config, factor, self._guess if name == LOSS else math.inf)
        found = series.see(step, name, (reading[0] / rate, 1.0), self._config)  # whatever the schedule does
        return found and replace(found, value=reading[0], expected=found.expected * rate)

    def state(self) -> dict[str, Any]:
        return {name: asdict(series) for name, series in self._series.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._series = {name: Series(**each) for name, each in state.items()}
