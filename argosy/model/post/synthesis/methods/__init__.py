"""Methods that make training data of the answers to a prompt, one a file: a module here has `METHOD`."""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from argosy.core.plugins import names

INSTRUCTIONS, PREFERENCES = "instructions", "preferences"
_BROKEN = "\ufffd"  # stands for bytes that are no character


class Settings(Protocol):
    """Fields of the config that methods read."""

    @property
    def output(self) -> str: ...
    @property
    def threshold(self) -> float: ...
    @property
    def keep(self) -> int: ...
    @property
    def margin(self) -> float: ...
    @property
    def copies(self) -> int: ...
    @property
    def rewards(self) -> object: ...


@dataclass(frozen=True)
class Answer:
    """An answer to a prompt, with its reward.

    Attributes:
        ended: whether it stopped by itself instead of reaching the limit.
        tokens: of it; 0 where nobody knows.
        reward: the weighted sum; None: nobody has rewarded it.
        parts, reasons: each reward's value and reason, by its name.
        seed: by which it was sampled."""

    text: str
    ended: bool
    tokens: int = 0
    reward: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    seed: int = 0

    @property
    def good(self) -> bool:
        """Tell whether it may be learnt: it has words, of whole characters, and an end."""
        return self.ended and bool(self.text.strip()) and _BROKEN not in self.text

    @property
    def value(self) -> float:
        """Return the reward; 0 where there is none."""
        return self.reward or 0.0


@dataclass(frozen=True)
class Chosen:
    """An answer to learn, and of a pair the one that is worse."""

    answer: Answer
    rejected: Answer | None = None

    @property
    def margin(self) -> float:
        """Return the difference of the pair's rewards."""
        return self.answer.value - (self.rejected.value if self.rejected else 0.0)


Choose = Callable[[Settings, Sequence[Answer]], "list[Chosen] | str"]


@dataclass(frozen=True)
class Method:
    """A way to make records of the answers to a prompt.

    Attributes:
        choose: returns the records, or the reason why there is none; the answers come in the order of their numbers.
        kind: what it makes, INSTRUCTIONS or PREFERENCES; "": as the config's `output` says.
        fields: what it reads of the config, of the fields that are not every method's."""

    choose: Choose
    kind: str = ""
    fields: tuple[str, ...] = ()


def distinct(answers: Sequence[Answer]) -> Iterator[Answer]:
    """Yield the first of answers that are equal but for white space."""
    seen: set[str] = set()
    for answer in answers:
        words = " ".join(answer.text.split())
        if words not in seen:
            seen.add(words)
            yield answer


def by_reward(answers: Sequence[Answer]) -> list[Answer]:
    """Sort answers by their rewards, the highest first; equal ones stay in their order."""
    return sorted(answers, key=lambda answer: -answer.value)


def none_good(answers: Sequence[Answer]) -> str:
    """Say why none of the answers may be learnt; "" where one may."""
    if any(answer.good for answer in answers):
        return ""
    said = [answer for answer in answers if answer.text.strip()]
    if not said:
        return "no words"
    return "broken characters" if any(each.ended for each in said) else "all answers were cut at max_new_tokens"


def method_names() -> list[str]:
    """List all methods."""
    return names(sys.modules[__name__])


def find_method(name: str) -> Method:
    """Return the method of this name."""
    found: Method = importlib.import_module(f"{__name__}.{name}").METHOD
    return found
