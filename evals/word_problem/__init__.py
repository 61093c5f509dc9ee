"""A worked word problem as a template: which number of its question each number of its solution comes from.

The solution's annotated calculations (GSM8K's `<<48/2=24>>`) are a chain: each operand is a number of the question,
an earlier result, or something that words say ("half", "a week"). Where it may be more than one of these, the numbers
behind all of them are fixed as they are, so that the template is right whichever it is."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from evals.word_problem.numbers import (
    NUMBER,
    Calculation,
    QuestionNumber,
    Written,
    calculation,
    implied,
    numbers,
    spelled_out,
    sums_of_others,
    written_numbers,
)


class Unmapped(Exception):
    """The problem cannot be made a template; the message is the reason."""


@dataclass(frozen=True)
class Source:
    """The source of a number: `value * factor + addend` of a question's number, a result, or an implied value."""

    kind: str  # question, result, implied; inverse: 100 / a percentage, which then is fixed
    index: int = 0
    factor: Fraction = Fraction(1)
    addend: Fraction = Fraction(0)
    value: Fraction = Fraction(0)


@dataclass
class WordProblem:
    """See the module.

    Attributes:
        question, solution: the texts.
        numbers: numbers of the question.
        steps: the calculations in their order; `inputs`: the sources of the operands of each.
        places: numbers of the solution, and the source of each.
        answer: the source of the answer.
        fixed: numbers of the question (indexes) that must stay as they are."""

    question: str
    solution: str
    numbers: list[QuestionNumber]
    steps: list[Calculation] = field(default_factory=list)
    inputs: list[list[Source]] = field(default_factory=list)
    places: list[tuple[Written, Source]] = field(default_factory=list)
    answer: Source = Source("implied")
    fixed: set[int] = field(default_factory=set)

    @property
    def free(self) -> list[int]:
        """Numbers of the question that can be others and that the answer depends on."""
        return sorted(self.behind(self.answer) - self.fixed)

    def behind(self, source: Source) -> set[int]:
        """Find the numbers of the question that a source depends on."""
        if source.kind in ("question", "inverse"):
            return {source.index}
        if source.kind == "implied":
            return set()
        return set().union(*(self.behind(one) for one in self.inputs[source.index]))

    def results(self, values: Sequence[Fraction], allowed: Callable[[Written, Fraction], bool] = lambda old,
                new: True) -> list[Fraction] | None:
        """Calculate each step with these numbers of the question; None where one cannot be calculated, or is not
        `allowed` (the result as it was, the new one)."""
        found: list[Fraction] = []
        for step, inputs in zip(self.steps, self.inputs, strict=True):
            result = step.value([value_of_source(one, values, found) for one in inputs])
            if result is None or not allowed(step.result, result):
                return None
            found.append(result)
        return found


def value_of_source(source: Source, values: Sequence[Fraction], results: Sequence[Fraction]) -> Fraction:
    """Calculate a source with these numbers of the question and these results."""
    if source.kind == "implied":
        return source.value
    found = values[source.index] if source.kind == "question" else results[source.index]
    return found * source.factor + source.addend


_ANNOTATION = re.compile(r"<<([^<>]*)>>")
_SEALED = "\0"  # instead of annotations: no calculation goes on across one
_TERM = rf"[$(]*(?:{NUMBER.pattern})%?\)*(?:[^\S\n]+(?!x\b)[A-Za-z]+(?:/[A-Za-z]+)?){{0,3}}"
_EQUATION = re.compile(rf"(?:{_TERM}[^\S\n]*[-–+*/x×÷][^\S\n]*)+{_TERM}[^\S\n]*=[^\S\n]*\$?(?:{NUMBER.pattern})%?")
_HUNDRED = Fraction(100)
# What a percentage p may stand for in a calculation: (factor, addend) of p * factor + addend.
_OF_PERCENT = ((Fraction(1), Fraction(0)), (1 / _HUNDRED, Fraction(0)), (1 / _HUNDRED, Fraction(1)),
               (-1 / _HUNDRED, Fraction(1)), (Fraction(-1), _HUNDRED), (Fraction(1), _HUNDRED))  # fmt: skip


def template(question: str, solution: str, answer: Fraction) -> WordProblem:
    """Make the template of a problem. Raises Unmapped: it has no calculations, one of them is not exact, or a number
    cannot be explained."""
    problem = WordProblem(question, solution, numbers(question))
    said = implied(question)
    problem.fixed |= {n for n, one in enumerate(problem.numbers) if one.fixed}
    for step in _calculations(solution):
        inputs = _inputs(problem, step, said)
        problem.steps.append(step)
        problem.inputs.append(inputs)
        problem.places += zip(step.operands, inputs, strict=True)
        problem.places.append((step.result, Source("result", len(problem.steps) - 1)))
    found = [n for n, step in enumerate(problem.steps) if step.result.value == answer]
    if not found:
        raise Unmapped("its answer is no calculation's result")
    problem.answer = Source("result", found[-1])
    _explain_text(problem, said | implied(_ANNOTATION.sub("", solution)))
    words = spelled_out(_ANNOTATION.sub("", solution))
    problem.fixed |= {n for n, one in enumerate(problem.numbers) if one.value in words}
    unused = set(range(len(problem.numbers))) - problem.behind(problem.answer)
    problem.fixed |= unused | sums_of_others(problem.numbers, unused)
    if not problem.free:
        raise Unmapped("none of its numbers can be told from others of the same value")
    return problem


def _calculations(solution: str) -> list[Calculation]:
    """Find the calculations in annotations, which have to be exact, and those in the text without one."""
    steps = []
    for match in _ANNOTATION.finditer(solution):
        step = calculation(match.group(1), match.start(1))
        if step is None or not step.exact:
            raise Unmapped("a calculation of its solution cannot be read, or is not exact")
        steps.append(step)
    if not steps:
        raise Unmapped("its solution has no annotated calculations")
    for match in _EQUATION.finditer(_without_annotations(solution)):
        step = calculation(match.group(), match.start())
        if step is not None and step.exact:
            steps.append(step)
    return sorted(steps, key=lambda step: step.result.start)


def _without_annotations(solution: str) -> str:
    return _ANNOTATION.sub(lambda match: _SEALED * len(match.group()), solution)


def _inputs(problem: WordProblem, step: Calculation, said: set[Fraction]) -> list[Source]:
    """Find the sources of a step's operands. Equal ones of a sum or a product may be told apart in any way."""
    values = [operand.value for operand in step.operands]
    alike = {token for token in step.tokens if isinstance(token, str)} in ({"+"}, {"*"})
    found: list[Source] = []
    for n, value in enumerate(values):
        several = _candidates(problem, value, said, step.result.start) if alike and values.count(value) > 1 else []
        if len(several) == values.count(value) and all(one.kind in ("question", "result") for one in several):
            found.append(several[values[:n].count(value)])
        else:
            found.append(_source(problem, value, said))
    return found


def _candidates(problem: WordProblem, value: Fraction, said: set[Fraction], before: int) -> list[Source]:
    """List all possible sources of a number of this value, at the place `before` of the solution."""
    found = [
        Source("result", n)
        for n, step in enumerate(problem.steps)
        if step.result.value == value and step.result.start < before]
    for n, one in enumerate(problem.numbers):
        shares = _OF_PERCENT if one.percent else _OF_PERCENT[:2] if one.unit.startswith("cent") else _OF_PERCENT[:1]
        found += [Source("question", n, *share) for share in shares if one.value * share[0] + share[1] == value]
        if one.percent and one.value * value == _HUNDRED:
            found.append(Source("inverse", n))
    return found + ([Source("implied", value=value)] if value in said else [])


def _source(problem: WordProblem, value: Fraction, said: set[Fraction], before: int = sys.maxsize) -> Source:
    """Find the source of a number; the numbers behind all candidates are fixed where several differ."""
    found = _candidates(problem, value, said, before)
    if not found:
        raise Unmapped("a number of its solution is not in its question")
    if len(found) > 1 or found[0].kind == "inverse":
        if _always_equal(problem, found):
            return found[0]
        for one in found:
            problem.fixed |= problem.behind(one)
        return Source("implied", value=value)
    return found[0]


def _always_equal(problem: WordProblem, sources: Sequence[Source]) -> bool:
    """Tell whether these results are the same function of the question's numbers (tried with three sets of others)."""
    if any(source.kind != "result" for source in sources):
        return False
    for prime in (7, 11, 13):
        values = [one.value + Fraction(prime * (n + 2), 3) for n, one in enumerate(problem.numbers)]
        results = problem.results(values)
        if results is None or len({results[source.index] for source in sources}) > 1:
            return False
    return True


def _explain_text(problem: WordProblem, said: set[Fraction]) -> None:
    """Find the sources of numbers outside of calculations: the calculation beside them, else as of operands."""
    known = {at.start for at, _ in problem.places}
    solution = problem.solution
    tokens = [token for token in written_numbers(_without_annotations(solution)) if token.start not in known]
    sources: dict[int, Source] = {}
    for match in _ANNOTATION.finditer(solution):
        n = next(n for n, step in enumerate(problem.steps) if match.start() < step.result.start < match.end())
        step, line = problem.steps[n], solution.rfind("\n", 0, match.start()) + 1
        beside = [token for token in tokens if line <= token.start < match.start()][-len(step.operands) :]
        if [token.value for token in beside] == [operand.value for operand in step.operands]:
            sources |= {token.start: source for token, source in zip(beside, problem.inputs[n], strict=True)}
        after = next((token for token in tokens if token.start >= match.end()), None)
        if after and after.value == step.result.value and not solution[match.end() : after.start].strip(" $("):
            sources[after.start] = Source("result", n)
    for token in tokens:
        source = sources.get(token.start) or _source(problem, token.value, said, token.start)
        problem.places.append((token, source))
