"""Items whose text speaks of their own options ("all of the above", "both A and C"): what variants must not break."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_OPTION = re.compile(
    r"\b(all|none|neither|both|any|either|each|two|some)\b[^.]{0,20}\b(above|below|these|those|them|others?|following|options|choices|answers)\b"
    r"|\bof the (above|others)\b|^(all|none|neither|both)\.?$"
    r"|\b(both|neither|either|only|and|or)\s+\(?[A-J]\)?(\s*(and|or|nor|,|&|\.|$))"
    r"|^\(?[A-J]\)?\s*(and|or|&|,)\s*\(?[A-J]\)?\.?$"
    r"|以上|上述|都对|都不对|都正确|都错|全错|全对|皆是|皆非|均(是|不|对|正确|错)"
    r"|[A-J]\s*[和与或、]\s*[A-J]",
    re.IGNORECASE,
)
_ABOVE = re.compile(r"\babove\b|以上|上述", re.IGNORECASE)
_STEM = re.compile(
    r"\b(which|one|what|select|choose)\b[^?]{0,40}\b(following|these|below|options?|choices|statements?)\b"
    r"|\bexcept\b|以下|下列|下面|哪一?项|哪个选项",
    re.IGNORECASE,
)
# Right is what is best of those shown.
_RELATIVE = re.compile(
    r"\b(best|least|most|greatest|largest|smallest|highest|lowest|primarily|mainly|worst|closest|nearest|\w{3,}est)\b"
    r"|最|主要|更",
    re.IGNORECASE,
)
_JUDGED = re.compile(
    r"\b(best|primarily|mainly|most (likely|probable|probably|appropriate|suitable|important|accurate|accurately"
    r"|commonly|common|closely|directly|effective|nearly|often)|least (likely|appropriate|important|common))\b"
    r"|最(可能|恰当|合适|适合|适宜|佳|好|符合|准确|贴切|直接)|主要",
    re.IGNORECASE,
)
# Right is what is not so, which most of what comes from elsewhere is not either.
_NEGATED = re.compile(
    r"\b(not|except|never|cannot|false|incorrect|untrue|wrong|lack|unlikely|least|no)\b|n't\b|exclud|without"
    r"|不|非|无|错误|有误|除|没有|未",
    re.IGNORECASE,
)
# Right is any true statement, which what comes from elsewhere may be too.
_ANY_TRUTH = re.compile(
    r"\b(true|correct|accurate|valid|statements?|right)\b|说法|叙述|表述|正确|判断|描述|推断|分析",
    re.IGNORECASE,
)


def options_refer_to_options(choices: Sequence[str]) -> bool:
    """Whether an option is about other options or their labels, so that dropping or moving one changes its truth."""
    return _refer(tuple(choices))


@lru_cache(maxsize=1 << 16)
def _refer(choices: tuple[str, ...]) -> bool:
    """The same; every variant of an item asks again."""
    return any(_OPTION.search(choice) for choice in choices)


def added_about_others(choices: Sequence[str], origin: Sequence[int], *, above: bool = False) -> bool:
    """Whether an option that a variant added is about the others; `above`: about those that stand before it."""
    added = [choice for choice, old in zip(choices, origin, strict=True) if old < 0]
    return any(_ABOVE.search(choice) for choice in added) if above else options_refer_to_options(added)


def refers_to_options(question: str, choices: Sequence[str]) -> bool:
    """Whether the question cannot be answered without seeing the options, or an option is about others."""
    return bool(_STEM.search(question)) or options_refer_to_options(choices)


def right_among_others(question: str) -> bool:
    """Whether the right option is the best of those shown, so that without it another one would be."""
    return bool(_JUDGED.search(question) or (_RELATIVE.search(question) and _STEM.search(question)))


def any_text_may_be_right(question: str) -> bool:
    """Whether an option of another question may be right here: it asks for what is not so, for the best, or for any
    true statement."""
    return any(kind.search(question) for kind in (_NEGATED, _RELATIVE, _ANY_TRUTH))
