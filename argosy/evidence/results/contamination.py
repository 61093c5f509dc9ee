"""Contamination of a checkpoint by a benchmark: the score of its rows, the verdict in words, its metrics in MLflow."""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from argosy.core.config.explain import grouped
from argosy.core.statistics.contamination import (
    LEAST_ITEMS,
    Contamination,
    Equals,
    Evidence,
    Gap,
    default_calibration,
    score,
)
from argosy.corpus.text.display import plain
from argosy.evidence.results.rows import Rows
from argosy.evidence.results.values import Record, item_of

LIKELY, NOT_SEEN, CANNOT_TELL = "likely", "not seen", "cannot tell"
WORDS = {LIKELY: "memorised: likely", NOT_SEEN: "not seen", CANNOT_TELL: "cannot tell"}
EVEN = 0.5  # probability from which a benchmark is likely to have been seen: the default bound of the gate's rule
WEAK = 0.05  # p-value of a trace that is no verdict yet
LEAST = 0.3  # four exposures leave scores of 0.37 and more (docs/benchmarks.md)


@dataclass(frozen=True)
class Seen:
    """Contamination of a checkpoint by a benchmark; `found` is None where there is no score, and `reason` says why."""

    task: str
    found: Contamination | None = None
    reason: str = ""

    @property
    def verdict(self) -> str:
        """`likely`: the probability is 0.5 or more (even odds before). `not seen`: the score's interval excludes what
        four exposures leave, and its p-value is no trace. Else `cannot tell`."""
        s = self.found
        if s is None or math.isnan(s.probability):
            return CANNOT_TELL
        if s.probability >= EVEN:
            return LIKELY
        return NOT_SEEN if s.high < LEAST and s.p_value >= WEAK else CANNOT_TELL

    @property
    def why(self) -> str:
        """Why it cannot be told; "" where it can."""
        s = self.found
        if self.verdict != CANNOT_TELL:
            return ""
        if s is None:
            return self.reason
        if math.isnan(s.probability):
            return "the calibration says nothing of contaminated models"
        if s.p_value < WEAK:
            return f"a weak trace (p {s.p_value:.2g}); more items, or a clean reference, would tell"
        return f"{s.items} items leave a score of up to {s.high:+.2f} possible; more would tell"

    @property
    def interval(self) -> str:
        """`+0.91 [+0.86, +0.97]`; `–` without a score."""
        s = self.found
        return f"{s.score:+.2f} [{s.low:+.2f}, {s.high:+.2f}]" if s is not None else "–"

    @property
    def numbers(self) -> str:
        """Score, interval, probability and items in a line."""
        s = self.found
        if s is None:
            return ""
        return f"score {self.interval} (0: as clean models), probability {plain(s.probability)}, {s.items} items"


def has_seen(found: Mapping[str, Seen], metric: str) -> bool:
    """Whether a checkpoint has likely seen the benchmark that a metric is of: a language or category (`facts_zh`) is
    of the longest name that it begins with."""
    family, _, rest = metric.partition("/")
    task = rest.partition("/")[0]
    of = max((each for each in found if task == each or task.startswith(f"{each}_")), key=len, default="")
    return family == "bench" and of in found and found[of].verdict == LIKELY


def doubt(metric: str, checkpoints: Mapping[str, Mapping[str, Seen]]) -> str:
    """`; base has likely seen it`, of those (label -> what is known) for which a metric may be memory; "" else."""
    labels = [label for label, found in checkpoints.items() if has_seen(found, metric)]
    return f"; {' and '.join(labels)} {'have' if len(labels) > 1 else 'has'} likely seen it" if labels else ""


def summary(found: Mapping[str, Seen]) -> tuple[str, str]:
    """The verdict of a checkpoint over all of its benchmarks, and in words: `likely: facts`, `not seen (3 tests)`."""
    of = {verdict: [task for task, seen in found.items() if seen.verdict == verdict] for verdict in WORDS}
    if of[LIKELY]:
        return LIKELY, f"{LIKELY}: {', '.join(of[LIKELY])}"
    parts = [f"{verdict} ({len(of[verdict])} test{'s' if len(of[verdict]) > 1 else ''})"
             for verdict in (NOT_SEEN, CANNOT_TELL) if of[verdict]]
    return (CANNOT_TELL if of[CANNOT_TELL] or not found else NOT_SEEN), ", ".join(parts) or "not asked"


PLAIN, MEMORISATION = "plain", "memorisation"
MIXED = "its options have no published order"
GAPS = {"permuted": "order_gap"}  # forms that are as hard as the published one for who knows the answer


def contamination_of(rows: Rows, task: str, reference: Rows | None = None) -> Contamination | str:
    """The score of one benchmark, or why there is none. `reference`: of a clean checkpoint that was asked the same."""
    evidence, places, clusters = evidence_of(rows, task)
    published = rows.groups.get((task, PLAIN), ())
    if not evidence and published and all(row.get("mixed") for row in published):  # in an order of ours
        return f"{task}: {MIXED}"
    if task not in {asked for asked, _ in rows.groups}:
        return f"{task} was not asked of this checkpoint: evaluate it with the suite that the other was evaluated with"
    if not evidence:
        return (f"{task} has neither memorisation nor a plain and a permuted form: evaluate it with a suite that has "
                "memorisation: {k: 3}")
    known = evidence_of(reference, task)[0] if reference is not None else []
    if reference is not None and not known:
        return (f"{task} is not measured for the reference: evaluate it with the same suite, or leave out "
                "reference: true")
    try:
        return score(evidence, places, clusters, default_calibration(), known)
    except ValueError as error:
        return f"{task}: {error}"


def tasks_of(rows: Rows) -> list[str]:
    """Benchmarks that there is evidence of."""
    wanted = {MEMORISATION, PLAIN}
    return sorted({task for task, variant in rows.groups if variant in wanted and evidence_of(rows, task)[0]})


def seen_of(rows: Rows) -> dict[str, Seen]:
    """Tell by benchmark whether it has been seen, by the shipped calibration: what the gate's rule decides on unless it
    takes a reference's off. For those without evidence, tell why it is unknown."""
    asked = {task for (task, _), group in rows.groups.items() if "correct" in group[0]} | set(tasks_of(rows))
    found = {task: contamination_of(rows, task) for task in sorted(asked)}
    return {task: Seen(task, None, s.removeprefix(f"{task} ").removeprefix(f"{task}: ")) if isinstance(s, str)
            else Seen(task, s) for task, s in found.items()}


def contamination_record(found: Mapping[str, Seen]) -> dict[str, dict[str, Any]]:
    """Return verdict and score by benchmark, as JSON has them; numbers that are not known are left out."""
    return {task: {"verdict": seen.verdict, "why": seen.why, **_numbers(seen.found)} for task, seen in found.items()}


def _numbers(s: Contamination | None) -> dict[str, Any]:
    if s is None:
        return {}
    numbers = {"score": s.score, "low": s.low, "high": s.high, "z": s.z, "p_value": s.p_value,
               "probability": s.probability}  # fmt: skip
    return {"measure": s.measure, **{name: value for name, value in numbers.items() if math.isfinite(value)},
            "items": s.items, "left_out": s.left_out}


def evidence_of(rows: Rows, task: str) -> tuple[list[Evidence], dict[str, Hashable], dict[str, Hashable]]:
    """Measures, places of right options and clusters, of the evaluation that has the most measures (of enough items),
    then the most items; of equals the newest. Forms that two of them asked are never mixed."""
    found = [each for part in reversed(rows.parts or [rows]) if (each := _evidence(part, task))[0]]
    return max(found, key=lambda each: _strength(each[0]), default=([], {}, {}))


def _strength(evidence: Iterable[Evidence]) -> tuple[int, int]:
    sizes = [len(each.values()) for each in evidence]
    return sum(size >= LEAST_ITEMS for size in sizes), sum(sizes)


def _evidence(rows: Rows, task: str) -> tuple[list[Evidence], dict[str, Hashable], dict[str, Hashable]]:
    """Items whose published order everybody would choose (`natural`: sorted numbers) are left out: that it stands out
    says nothing. So are items whose options have no published order (`mixed`)."""
    natural = {str(r["id"]) for r in rows.groups.get((task, MEMORISATION), ()) if r.get("natural")}
    orders, plain = ([r for r in rows.groups.get((task, form), ()) if item_of(r) not in natural and not r.get("mixed")]
                     for form in (MEMORISATION, PLAIN))
    places: dict[str, Hashable] = {str(r["id"]): tuple(r["place"]) for r in orders if "place" in r}
    clusters: dict[str, Hashable] = {item_of(r): r["cluster"] for r in (*orders, *plain) if r.get("cluster")}
    found: list[Evidence] = []
    if places:
        for number, name in enumerate(("text_order", "answer_order")):
            found.append(Equals(name, {str(r["id"]): r["scores"][number] for r in orders if len(r["scores"]) > number}))
    published = _right(plain)
    for variant, name in GAPS.items():
        changed = _right(rows.groups.get((task, variant), ()))
        if published and changed:
            found.append(Gap(name, published, changed))
    if not places:
        places = {item_of(r): (r["gold"], len(r["scores"])) for r in plain if "gold" in r and r.get("scores")}
    return found, places, clusters


def _right(rows: Iterable[Record]) -> Mapping[str, float]:
    found = grouped((item_of(row), row["correct"]) for row in rows if isinstance(row.get("correct"), bool))
    return {item: sum(each) / len(each) for item, each in found.items()}


PREFIX = "contamination/"
NUMBERS = ("score", "low", "high", "p_value", "probability", "items", "z")


def contamination_metrics(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Score an evaluation's rows by metric, by the shipped calibration; benchmarks without one have no metric."""
    return metrics_of(seen_of(Rows(rows)))


def metrics_of(found: Mapping[str, Seen]) -> dict[str, float]:
    """Return the numbers of these scores by metric."""
    return {f"{PREFIX}{task}/{name}": float(getattr(seen.found, name))
            for task, seen in found.items() if seen.found is not None for name in NUMBERS}


def seen_in(metrics: Mapping[str, float]) -> dict[str, Seen]:
    """Read the contamination by benchmark from the metrics of a LoggedModel."""
    tasks = sorted({name.split("/")[1] for name in metrics if name.startswith(PREFIX) and name.count("/") == 2})
    return {task: Seen(task, of_numbers({name: metrics.get(f"{PREFIX}{task}/{name}", math.nan) for name in NUMBERS}))
            for task in tasks}


def of_numbers(numbers: Mapping[str, float]) -> Contamination | None:
    """The score that these were of, without its parts; None where there is none among them."""
    score, low, high, p_value, probability, items, z = (numbers.get(name, math.nan) for name in NUMBERS)
    if not all(map(math.isfinite, (score, low, high, p_value, probability))):
        return None
    return Contamination("", score, low, high, z, p_value, probability, int(items) if math.isfinite(items) else 0, ())
