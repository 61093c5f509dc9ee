"""How far a benchmark's published form stands out for a model: a score of contamination, calibrated on clean models.

Knowledge survives a changed form, memory of an item does not. So the score is made of what an item's published form
has over its equals, in which the answer is the same:

* `Equals`: scores of the published form and of equal ones (the log-probability of the item, or of its right letter, in
  its published order of options and in others: Ni et al., "Training on the Benchmark Is Not All You Need", 2024; Oren
  et al., "Proving Test Set Contamination in Black Box Language Models", 2024; of the item's last option after the
  others: verbatim completion). For a model that has not seen the item, the published form has any rank.
* `Gap`: right answers as published minus right answers in a changed form (other orders, labels, letters against texts,
  paraphrases, other distractors). Other orders are as hard; where a form is harder for everybody, only calibration on
  clean models, or a clean reference that was asked the same, says how much of a gap is normal.

Each is an effect: the mean over items in units of its root mean square, so that it is as large for 200 items as for
2,000.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from argosy.statistics.contamination_evidence import Equals, Evidence, Gap
from argosy.statistics.contamination_null import Calibration, Null
from argosy.statistics.contamination_parts import LEAST_ITEMS, LEAST_OF_PLACE, Part, columns, part
from argosy.statistics.intervals import quantile

__all__ = ["Contamination", "Equals", "Evidence", "Gap", "Part", "score"]


@dataclass(frozen=True)
class Contamination:
    """Whether a model has seen a benchmark as it was published.

    Attributes:
        measure: the one that stands out most: text that was trained on as a whole shows in another than answers that
            were tuned on, so one is enough.
        score: its effect less what is normal for clean models: about 0 for those.
        low, high: interval of the score, simultaneous over the measures, since the most outstanding one was chosen;
            over items, and over clean models where it is calibrated.
        z: of that measure, in errors.
        p_value: one-sided, corrected for the number of measures (Sidak): how often a clean model scores as high.
        probability: that it is contaminated, by calibration, with even odds before; NaN without a calibration.
        left_out: items whose right option's place is too rare to know what it does.
    """

    measure: str
    score: float
    low: float
    high: float
    z: float
    p_value: float
    probability: float
    items: int
    parts: tuple[Part, ...]
    left_out: int = 0


def score(
    evidence: Sequence[Evidence],
    places: Mapping[str, Hashable] | None = None,
    clusters: Mapping[str, Hashable] | None = None,
    calibration: Calibration | None = None,
    reference: Sequence[Evidence] = (),
    level: float = 0.95,
) -> Contamination:
    """The score of one model and one benchmark.

    Args:
        evidence: measures of different names; those of fewer than 20 items are left out.
        places: where each item's right option is published, as (place, number of options) where that number varies:
            places of one number count the same, since a model that prefers a place stands out where that is the right
            one (post-stratification); numbers of options count by their items. A number of which a place has fewer than
            10 items is left out, without numbers such a place.
        clusters: of each item, what related ones share.
        calibration: what clean and contaminated models score; measures that it does not know are left out. None: a
            clean model's effects are 0.
        reference: measures of a clean model asked the same: its effects are taken off item by item, so that what is
            normal is 0; the spread between clean models counts twice.

    Raises:
        ValueError: no measure is left.
    """
    values, left_out = columns(evidence, reference, places)
    if calibration is not None:
        values = {name: column for name, column in values.items() if name in calibration.nulls}
    if not values:
        names = ", ".join(each.name for each in evidence) or "none"
        rare = f"{left_out} items have their right option at a place of fewer than {LEAST_OF_PLACE}"
        raise ValueError(f"no measure of contamination of {LEAST_ITEMS} or more items that are comparable: {names}"
                         + (f"; {rare}" if left_out else ""))
    nulls = {name: calibration.nulls[name] if calibration else Null(0.0, 0.0) for name in values}
    if reference:
        nulls = {name: Null(0.0, math.sqrt(2) * null.error) for name, null in nulls.items()}
    found = [part(name, column, places, clusters, nulls[name]) for name, column in values.items()]
    most = max(found, key=lambda each: each.z)
    error = math.hypot(most.stderr, nulls[most.name].error)
    half = quantile(1 - (1 - level) / len(found)) * error
    excess = most.effect - nulls[most.name].mean
    p_value = -math.expm1(len(found) * math.log1p(-most.p_value)) if most.p_value < 1 else 1.0
    probability = calibration.probability(most.z) if calibration else math.nan
    return Contamination(most.name, excess, excess - half, excess + half, most.z, p_value, probability,
                         max(each.items for each in found), tuple(found), left_out)
