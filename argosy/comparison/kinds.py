"""What a metric's name says of it: its family, its unit, which way is better, and how much of it matters."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from argosy.comparison.measures import BENCH, BITS, POINTS, Measure, of_judge, of_memorisation, of_probe

HEADLINE = "headline"

_LOWER = re.compile(r"(^|_)(loss|ppl|perplexity|bpb|bpc|nats|nll|error|wer|cer|rank|bias|kl|refused|brier|ece|"
                    r"mae|mse|rmse|ter|toxicity)(_|$)|^bits_per_byte$")
_HIGHER = re.compile(r"(^|_)(acc|accuracy|consistency|exact|match|em|f1|bleu|rouge|rougel|rougelsum|bleurt|bertscore|"
                     r"meteor|chrf|mcc|reward|win|wins|prob|mass|share|lift|margin|top\d+|pass|valid|precision|"
                     r"recall|auc|mrr)(_|@|\d|$)")
_SHARE = re.compile(r"(^|_)(acc|accuracy|share|unparsable|consistency|exact|match|em|first|top\d+|pass|valid|win|"
                    r"wins)(_|@|\d|$)")
_TRACE = re.compile(r"(gap|first)$")
_MINOR = re.compile(r"^(chance|acc_all|acc_averaged|consistency|position_bias|acc_token|acc_bytes?|margin|rank|top\d+|"
                    r"nats|ppl)$")


# Halves of one question: who always says "none" is right on the first and wrong on the second, so neither alone is
# better or worse (shipped suites' names of the forms of `none_of_the_others`).
_HALVES = ("none_of_the_others", "none_control")


@dataclass(frozen=True)
class Kind:
    """A metric.

    Attributes:
        family: what it is shown with.
        short: its name within the family.
        share: whether it is a share, which is shown in per cent and its differences in points.
        better: 1 where higher is better, -1 where lower is, 0 where neither can be said.
        centred: nearer 0 is better: `better` is -1, and differences are of the distances from 0.
        margin: the smallest difference that matters, in the metric's own unit; None where its scale is unknown.
        minor: whether only `--all` shows it: it says again what another one says, or is a measure of form.
    """

    family: str
    short: str
    share: bool = False
    better: int = 0
    margin: float | None = None
    minor: bool = False
    unit: str = ""
    centred: bool = False

    def goodness(self, value: float) -> float:
        """What is larger where the metric is better; where neither way is, the value."""
        return (self.better or 1) * (abs(value) if self.centred else value)


@cache
def kind_of(name: str) -> Kind:
    """The kind of a metric, from its name (docs/architecture.md has them); others are guessed by their last word."""
    parts = name.split("/")
    if parts[0] == "bench" and len(parts) == 4:
        return _bench(*parts[1:])
    if parts[0] == "heldout" and len(parts) >= 3:
        return _heldout(parts[1], "/".join(parts[2:]))
    if parts[0] == "probe" and len(parts) >= 4:
        return _probe(parts[1], "/".join(parts[2:-1]), parts[-1])
    if parts[0] == "memorisation" and len(parts) >= 3:
        short = f"{'/'.join(parts[2:])} {parts[1]}"
        return _kind("memorisation", short, parts[1], of_memorisation(parts[1]))
    if parts[0] == "judge" and len(parts) in (2, 3):
        return _kind("judge", "/".join(parts[1:]), parts[-1], of_judge(parts[-2], parts[-1]))
    family = parts[0] if len(parts) > 1 else "other"
    return _guess(family, "/".join(parts[1:]) or name, parts[-1])


_LANG = re.compile(r"^(.+)_(ar|de|en|es|fr|hi|id|it|ja|ko|nl|pl|pt|ru|sv|sw|th|tr|uk|vi|zh)$")


def _bench(task: str, variant: str, measure: str) -> Kind:
    split = _LANG.match(task)
    if split:
        whole = _bench(split[1], variant, measure)
        return replace(whole, short=f"{split[2]}: {whole.short}")
    if _TRACE.search(measure):
        return Kind(task, f"{variant} {measure}", _is_share(measure), 0, POINTS, True)
    short = variant if measure == "acc" else f"{variant} {measure}"
    guessed = _guess(task, short, measure)
    better = 0 if variant in _HALVES else BENCH.get(measure, guessed.better)
    return Kind(task, short, guessed.share, better, guessed.margin, bool(_MINOR.search(measure)))


def _heldout(measure: str, channel: str) -> Kind:
    if measure == "bpb":
        return Kind("held-out text", channel, False, -1, BITS, False, "bits a byte")
    guessed = _guess("held-out text", f"{channel} {measure}", measure)
    unit = {"nats": "nats a token", "ppl": "perplexity"}.get(measure, "")
    margin = BITS if measure == "nats" else None
    better = 0 if measure in ("context_gain", "changed") else guessed.better or -1
    return Kind("held-out text", f"{channel} {measure}", False, better, margin, True, unit)


def _probe(suite: str, name: str, measure: str) -> Kind:
    family = "probes" if suite == "probes" else f"probes: {suite}"
    found = _kind(family, f"{name} {measure}", measure, of_probe(measure))
    return replace(found, minor=bool(_MINOR.search(measure)))


def _kind(family: str, short: str, measure: str, known: Measure | None) -> Kind:
    if known is None:
        return _guess(family, short, measure)
    return Kind(family, short, known.share, known.better, known.margin, unit=known.unit, centred=known.centred)


def _guess(family: str, short: str, measure: str) -> Kind:
    word = measure.lower()
    better = -1 if _LOWER.search(word) else 1 if _HIGHER.search(word) else 0
    share = _is_share(word)
    if share or word in ("prob", "mass", "position_bias", "f1"):
        return Kind(family, short, share, better, POINTS)
    margin = BITS if word in ("bpb", "nats", "loss") else None
    return Kind(family, short, False, better, margin, unit={"bpb": "bits a byte", "ppl": "perplexity"}.get(word, ""))


def _is_share(word: str) -> bool:
    return bool(_SHARE.search(word))


def chance_of(name: str) -> str:
    """The metric that says what guessing scores on an accuracy; "" for another metric."""
    parts = name.split("/")
    return "/".join([*parts[:3], "chance"]) if parts[0] == "bench" and len(parts) == 4 and parts[3] == "acc" else ""


def families(names: list[str]) -> list[str]:
    """Families in the order of reading: benchmarks, held-out text, probes, others."""
    def place(family: str, name: str) -> tuple[int, str]:
        first = name.partition("/")[0]
        return ({"bench": 0, "heldout": 1, "probe": 2}.get(first, 3), family)

    found = {kind_of(name).family: name for name in names}
    return sorted(found, key=lambda family: place(family, found[family]))


def order(name: str) -> tuple[object, ...]:
    """Where a metric stands in its family: the headline, then the published form, then by name."""
    parts = name.split("/")
    variant = parts[2] if parts[0] == "bench" and len(parts) == 4 else ""
    split = bool(variant and _LANG.match(parts[1]))
    return (variant != HEADLINE, split, variant != "plain", kind_of(name).minor, kind_of(name).short)
