r"""1 for an answer whose final result equals that of the prompt's `answer`, else 0.

The result is the last \boxed{...}, else what stands behind the last "####" (GSM8K's mark), else what "the answer is" or
"答案是" states, else the last number."""

import re

from pydantic import Field

from argosy.corpus.text.answers import boxed, stated
from argosy.corpus.text.values import amounts, begins_with_several, ends_with_alternatives, value_of
from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score, shown

_FINAL = re.compile(r"####\s*([^\n]*)")
_SPACES = re.compile(r"\\(?:left|right|[!,;: ])|[\s$]")
_DENIED = re.compile(r"\s*(?:not\b|不是)", re.IGNORECASE)
_BRACKETS = ("()", "[]", "(]", "[)")


class MathsConfig(RewardConfig):
    tolerance: float = Field(default=1e-6, ge=0, lt=1)
    """Largest relative difference of two numbers that are equal; whole numbers must be the same."""


class Maths(Reward[MathsConfig]):
    """The answer's final result is the prompt's; a result that is no number must be written alike."""

    checks = "answer"

    def refusal(self, reference: str) -> str:
        return "" if _bare(_wanted(reference)) else "empty"

    def score(self, sample: Sample, reference: str) -> Score:
        wanted = _wanted(reference)
        number = value_of(wanted)
        given = _result(sample.text, number is not None)
        if given is None:
            return Score(0.0, "no number in the answer" if number else "no result in the answer")
        if _equal(given, wanted, self.config.tolerance):
            return Score(1.0, shown(given))
        return Score(0.0, f"{shown(given)}, not {shown(wanted)}")


def _marked(text: str) -> str | None:
    marked = _FINAL.findall(text)
    return str(marked[-1]) if marked else stated(text)


def _wanted(reference: str) -> str:
    return boxed(reference) or _marked(reference) or reference


def _result(text: str, number: bool) -> str | None:
    """Return the result of an answer, or None; where a `number` is wanted, one that stands in it."""
    if (found := boxed(text)) is not None:
        return found
    marked = _marked(text)
    if not number:
        return marked if marked is not None else text or None
    if marked is not None and _DENIED.match(marked):  # "not 7" is no 7, "not 7 but 8" is 8
        numbers = amounts(marked)
        return numbers[-1] if len(numbers) > 1 else marked
    if marked is not None:
        alone = value_of(marked) or begins_with_several(marked)
        return marked if alone else next(iter(amounts(marked)), None)
    return text.strip() if ends_with_alternatives(text) else next(reversed(amounts(text)), None)


def _equal(given: str, wanted: str, tolerance: float) -> bool:
    one, other = value_of(given), value_of(wanted)
    if one and other:
        return one.equals(other, tolerance)
    items, others = _items(given), _items(wanted)
    if items and others and len(items) == len(others) and _ends(given) == _ends(wanted):
        return all(_equal(one, other, tolerance) for one, other in zip(items, others, strict=True))
    return _bare(given) == _bare(wanted)


def _bare(text: str) -> str:
    return _SPACES.sub("", text).replace("dfrac", "frac").replace("tfrac", "frac").rstrip(".。")


def _ends(text: str) -> str:
    bare = _bare(text)
    return bare[:1] + bare[-1:]


def _items(text: str) -> list[str]:
    return _bare(text)[1:-1].split(",") if _ends(text) in _BRACKETS else []
