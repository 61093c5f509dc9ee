"""Variants of benchmarks: their base class, the scan that finds them, and which items they must leave alone."""

import re
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import ClassVar

from argosy.core.config.schema import Config
from argosy.core.plugins import Folder
from evals.extract.listed import stand_in_order
from evals.question import Draft


class NotApplicable(Exception):
    """A variant cannot be made of this item; the message is the reason that is counted."""


OF_OTHERS = "an option speaks of the other options"


class Variant(Config):
    """Base of variants, whose fields are their parameters: one file each, found by being there."""

    name: ClassVar[str] = ""
    """The name that suites write; without one a class is a base of others."""
    draws: ClassVar[bool] = True
    """Whether `apply` takes anything from `rng`."""
    open: ClassVar[bool] = False
    """Whether items without options can be asked."""
    several: ClassVar[bool] = False
    """Whether items with several right options can be asked."""
    independent: ClassVar[bool] = False
    """Whether it moves, renames or drops options, so that none of them may speak of the others."""
    reorders: ClassVar[bool] = False
    """Whether an added option that speaks of those above it would stand elsewhere."""
    knowledge: ClassVar[bool] = True
    """Whether it asks for a model's knowledge, and so counts in the headline of a comparison; not for reading a given
    answer, nor for refusing options."""
    harness_form: ClassVar[bool] = False
    """Whether an item of a task of lm-eval keeps the form in which lm-eval asks it."""

    @property
    def directed(self) -> bool:
        """Whether its metrics are better one way; not where a model that always gives one answer gains."""
        return True

    @property
    def as_example(self) -> "Variant":
        """The variant that a worked example goes through in its place."""
        return self

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Change a draft into one or several, each with exactly one right option. All that is drawn comes from `rng`,
        which the seed and the item's id feed.

        Raises NotApplicable: this item does not allow it."""
        raise NotImplementedError


VARIANTS: Folder[type[Variant]] = Folder("variant", Variant, __name__)

_OPTION = re.compile(
    r"\b(all|none|neither|both|any|either|each|two|some)\b[^.]{0,20}\b(above|below|these|those|them|others?|following|options|choices|answers)\b"
    r"|\bof the (above|others)\b|^(all|none|neither|both)\.?$"
    r"|\b(both|neither|either|only|and|or)\s+\(?[A-J]\)?(\s*(and|or|nor|,|&|\.|$))"
    r"|^\(?[A-J]\)?\s*(and|or|&|,)\s*\(?[A-J]\)?\.?$"
    r"|以上|上述|都对|都不对|都正确|都错|全错|全对|皆是|皆非|均(是|不|对|正确|错)|没有正确(答案|选项)"
    r"|其[他它余](选项|答案|各项|几项|[两三四]个?(选项|答案|项))\s*(均|都|全|皆)"
    r"|^(二者|两者|三者|四者|全部)?(都|均|皆|全)(可以?|是|不是|不对|有可能|有|没有|无|不可以?)。?$"
    r"|(?<![A-Z])[A-J]\s*[和与或及、]\s*[A-J](?![A-Z])"
    r"|^[A-J](\s*[,，]\s*[A-J])+\s*(均|都|全|皆)(可以?|是|不是|对|不对|正确)?。?$",
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
    """Tell whether an option is about other options or their labels, so that dropping or moving one matters."""
    return _refer(tuple(choices))


@lru_cache(maxsize=1 << 16)
def _refer(choices: tuple[str, ...]) -> bool:
    """Cached: every variant of an item asks again."""
    return any(_OPTION.search(choice) for choice in choices)


def added_about_others(choices: Sequence[str], origin: Sequence[int], *, above: bool = False) -> bool:
    """Tell whether an option that a variant added is about the others; `above`: about those that stand before it."""
    added = [choice for choice, old in zip(choices, origin, strict=True) if old < 0]
    return any(_ABOVE.search(choice) for choice in added) if above else options_refer_to_options(added)


def all_named(question: str, choices: Sequence[str]) -> bool:
    """Tell whether a question names all the options in their order ("is 3 or 4 larger?"), so that one that a variant
    drops is still to be read."""
    return _named(question, tuple(choices))


_named = lru_cache(maxsize=1 << 16)(stand_in_order)


def refers_to_options(question: str, choices: Sequence[str]) -> bool:
    """Tell whether the question cannot be answered without seeing the options, or an option is about others."""
    return bool(_STEM.search(question)) or options_refer_to_options(choices)


def right_among_others(question: str) -> bool:
    """Tell whether the right option is the best of those shown, so that without it another one would be."""
    return bool(_JUDGED.search(question) or (_RELATIVE.search(question) and _STEM.search(question)))


def any_text_may_be_right(question: str) -> bool:
    """Tell whether an option of another question may be right here: it asks for a false statement, for the best, or for
    any true one."""
    return any(kind.search(question) for kind in (_NEGATED, _RELATIVE, _ANY_TRUTH))
