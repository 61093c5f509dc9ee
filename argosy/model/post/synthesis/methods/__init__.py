"""Methods that make training data of the answers to a prompt, one class a file."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from argosy.core.plugins import Folder

INSTRUCTIONS, PREFERENCES = "instructions", "preferences"
_BROKEN = "\ufffd"  # stands for bytes that are no character


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
        return self.reward or 0.0


@dataclass(frozen=True)
class Chosen:
    """An answer to learn, and of a pair the one that is worse."""

    answer: Answer
    rejected: Answer | None = None

    @property
    def margin(self) -> float:
        return self.answer.value - (self.rejected.value if self.rejected else 0.0)


class Method(ABC):
    """A way to make records of the answers to a prompt.

    Attributes:
        name: that of its module.
        kind: what it makes, INSTRUCTIONS or PREFERENCES; "": as the config's `output` says.
        fields: what it reads of the config, of the fields that are not every method's."""

    name: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.name = cls.__module__.rpartition(".")[2]

    @abstractmethod
    def choose(self, config: Any, answers: Sequence[Answer]) -> list[Chosen] | str:
        """Return the records, or the reason why there is none; the answers come in the order of their numbers."""


METHODS: Folder[Method] = Folder("method", Method, __name__, instances=True)


def distinct(answers: Sequence[Answer]) -> Iterator[Answer]:
    """Yield the first of answers that are equal but for white space."""
    seen: set[str] = set()
    for answer in answers:
        words = " ".join(answer.text.split())
        if words not in seen:
            seen.add(words)
            yield answer


def by_reward(answers: Sequence[Answer]) -> list[Answer]:
    return sorted(answers, key=lambda answer: -answer.value)


def none_good(answers: Sequence[Answer]) -> str:
    """Say why none of the answers may be learnt; "" where one may."""
    if any(answer.good for answer in answers):
        return ""
    said = [answer for answer in answers if answer.text.strip()]
    if not said:
        return "no words"
    return "broken characters" if any(each.ended for each in said) else "all answers were cut at max_new_tokens"
