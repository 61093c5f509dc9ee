"""A worked word problem as a template: which number of its question each number of its solution comes from.

The solution's annotated calculations (GSM8K's `<<48/2=24>>`) are a chain: each operand is a number of the question,
an earlier result, or something that words say ("half", "a week"). Where it may be more than one of these, the numbers
behind all of them are held as they are, so that the template is right whichever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from evals.arithmetic import Calculation, Written
from evals.question_numbers import Asked


class Unmapped(Exception):
    """The problem cannot be made a template; the message is the reason."""


@dataclass(frozen=True)
class Source:
    """Where a number comes from: `value * factor + addend` of a question's number, a result, or what words say."""

    kind: str  # asked, result, meant; inverse: 100 / a percentage, which then is held
    index: int = 0
    factor: Fraction = Fraction(1)
    addend: Fraction = Fraction(0)
    value: Fraction = Fraction(0)


@dataclass
class WordProblem:
    """See the module.

    Attributes:
        question, solution: the texts.
        asked: numbers of the question.
        steps: the calculations in their order; `inputs`: where the operands of each come from.
        places: numbers of the solution, and where each comes from.
        answer: where the answer comes from.
        held: numbers of the question (indexes) that must stay as they are.
    """

    question: str
    solution: str
    asked: list[Asked]
    steps: list[Calculation] = field(default_factory=list)
    inputs: list[list[Source]] = field(default_factory=list)
    places: list[tuple[Written, Source]] = field(default_factory=list)
    answer: Source = Source("meant")
    held: set[int] = field(default_factory=set)

    @property
    def free(self) -> list[int]:
        """Numbers of the question that can be others and that the answer depends on."""
        return sorted(self.behind(self.answer) - self.held)

    def behind(self, source: Source) -> set[int]:
        """Numbers of the question that a source depends on."""
        if source.kind in ("asked", "inverse"):
            return {source.index}
        if source.kind == "meant":
            return set()
        return set().union(*(self.behind(one) for one in self.inputs[source.index]))

    def results(
        self, values: Sequence[Fraction], allowed: Callable[[Written, Fraction], bool] = lambda old, new: True
    ) -> list[Fraction] | None:
        """What each step gives with these numbers of the question; None where one cannot be calculated, or is not
        `allowed` (the result as it was, the new one)."""
        found: list[Fraction] = []
        for step, inputs in zip(self.steps, self.inputs, strict=True):
            result = step.value([value_of_source(one, values, found) for one in inputs])
            if result is None or not allowed(step.result, result):
                return None
            found.append(result)
        return found


def value_of_source(source: Source, values: Sequence[Fraction], results: Sequence[Fraction]) -> Fraction:
    """What a source is with these numbers of the question and these results."""
    if source.kind == "meant":
        return source.value
    found = values[source.index] if source.kind == "asked" else results[source.index]
    return found * source.factor + source.addend
