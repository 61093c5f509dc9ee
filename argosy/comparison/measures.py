"""Which way is better, and the unit, of measures whose name does not say it: those of probes, memorisation and judges.

A measure that is not here is guessed from its words (argosy.comparison.kinds).
"""

from __future__ import annotations

from dataclasses import dataclass

from argosy.quality import registered

POINTS, BITS = 0.02, 0.01  # the smallest difference of a share, and of bits or nats, that one would act on


@dataclass(frozen=True)
class Measure:
    """`better`, `share`, `margin`, `unit` and `centred` as a Kind has them."""

    better: int
    share: bool = False
    margin: float | None = None
    unit: str = ""
    centred: bool = False


_GOOD, _BAD, _SHARE = Measure(1, True, POINTS), Measure(-1, True, POINTS), Measure(0, True, POINTS)
_LIKELIER, _LESS_LIKELY, _PROBABILITY = (Measure(better, False, POINTS) for better in (1, -1, 0))
_NEUTRAL = Measure(0)

# Of benchmarks (METRICS of evals.metrics), which way is better; of others the words say it.
BENCH: dict[str, int] = {
    **dict.fromkeys(("acc", "acc_norm", "acc_bytes", "mass", "acc_all", "consistency", "acc_averaged", "acc_pride"), 1),
    **dict.fromkeys(("position_bias", "unparsable"), -1), "chance": 0,
}  # fmt: skip

# By kind of probe (probes/kinds). `gap` is what older evaluations call both the separation of `refusal` and the
# gender_gap of `winogender`, so it has no direction.
PROBE: dict[str, Measure] = {
    # next_token, opener
    "log_odds": Measure(1, unit="nats"), "lift": Measure(1, unit="nats"), "merged": _SHARE,
    # perplexity
    "bpc": Measure(-1, False, BITS, "bits a character"), "bpw": Measure(-1, False, BITS, "bits a word"),
    # relation
    "chance": _PROBABILITY, "same_answer": _PROBABILITY,
    # winogender
    "gotcha": _GOOD, "not_gotcha": _GOOD, "gap": _NEUTRAL, "log_odds_female": _NEUTRAL, "bls_correlation": _NEUTRAL,
    "gender_gap": Measure(-1, True, POINTS, centred=True),
    # refusal: 0 is no threshold of log-odds, so only refusing has a direction
    "separation": Measure(1, unit="nats"),
    "refusal_harmful": _GOOD, "refusal_harmless": _BAD, "refusal_lookalike": _BAD, "openings": _PROBABILITY,
    "log_odds_harmful": _NEUTRAL, "log_odds_harmless": _NEUTRAL, "log_odds_lookalike": _NEUTRAL,
    # reply_language
    "same": _LIKELIER, "zh": _LIKELIER, "en": _LIKELIER, "letters": _PROBABILITY,
    # end_of_turn
    "early": _LESS_LIKELY,
    # generation; noise has the most different pairs
    "faultless": _GOOD, "length": Measure(0, unit="words"), "distinct2": _PROBABILITY,
}  # fmt: skip

# argosy.judging.verdicts; what is about the judge has no direction
JUDGE: dict[str, Measure] = {
    "losses": _BAD, "ties": _SHARE, "preference": _LIKELIER, "orders_agree": _SHARE, "agreement": _SHARE,
    "kappa": _NEUTRAL, "position_bias": _PROBABILITY, "longer_wins": _SHARE,
}  # fmt: skip


def of_probe(measure: str) -> Measure | None:
    """Of probe/<suite>/<name>/.../<measure>; the rules of argosy.quality are faults. None: its name says it."""
    return _BAD if measure in registered() else PROBE.get(measure)


def of_judge(side: str, measure: str) -> Measure | None:
    """Of judge/<measure>, and of judge/<side>/<rule>: faults of the model that is judged (first), of the other one."""
    if measure in registered():
        return _SHARE if side == "second" else _BAD
    return JUDGE.get(measure)


def of_memorisation(measure: str) -> Measure:
    """Of memorisation/<measure>/<channel>: training text that a model says, or gives away, is to be little; of held-out
    text (`_heldout`) it is the base line."""
    name, _, what = measure.partition("_")
    if name == "exact" and not what.endswith("gap"):
        return _SHARE if what == "heldout" else _BAD
    return _PROBABILITY if what == "heldout" else _LESS_LIKELY
