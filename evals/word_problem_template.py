"""Where each number of a worked solution comes from: how a problem becomes a template."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from fractions import Fraction

from evals.arithmetic import NUMBER, Calculation, calculation
from evals.question_numbers import meant, numbers, said_in_words, told_by_others, written_numbers
from evals.word_problem import Source, Unmapped, WordProblem

_ANNOTATION = re.compile(r"<<([^<>]*)>>")
_SEALED = "\0"  # instead of annotations: no calculation goes on across one
_TERM = rf"[$(]*(?:{NUMBER.pattern})%?\)*(?:[^\S\n]+(?!x\b)[A-Za-z]+(?:/[A-Za-z]+)?){{0,3}}"
_EQUATION = re.compile(rf"(?:{_TERM}[^\S\n]*[-–+*/x×÷][^\S\n]*)+{_TERM}[^\S\n]*=[^\S\n]*\$?(?:{NUMBER.pattern})%?")
_HUNDRED = Fraction(100)
# What a percentage p may stand for in a calculation: (factor, addend) of p * factor + addend.
_OF_PERCENT = ((Fraction(1), Fraction(0)), (1 / _HUNDRED, Fraction(0)), (1 / _HUNDRED, Fraction(1)),
               (-1 / _HUNDRED, Fraction(1)), (Fraction(-1), _HUNDRED), (Fraction(1), _HUNDRED))  # fmt: skip


def template(question: str, solution: str, answer: Fraction) -> WordProblem:
    """The template of a problem.

    Raises:
        Unmapped: it has no calculations, one of them is not exact, or a number cannot be explained.
    """
    problem = WordProblem(question, solution, numbers(question))
    said = meant(question)
    problem.held |= {n for n, one in enumerate(problem.asked) if one.held}
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
    _explain_text(problem, said | meant(_ANNOTATION.sub("", solution)))
    words = said_in_words(_ANNOTATION.sub("", solution))
    problem.held |= {n for n, one in enumerate(problem.asked) if one.value in words}
    unused = set(range(len(problem.asked))) - problem.behind(problem.answer)
    problem.held |= unused | told_by_others(problem.asked, unused)
    if not problem.free:
        raise Unmapped("none of its numbers can be told from others of the same value")
    return problem


def _calculations(solution: str) -> list[Calculation]:
    """Those in annotations, and those that stand in the text without one.

    Raises:
        Unmapped: there are none, or an annotated one cannot be read or is not exact.
    """
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
    """Where a step's operands come from. Equal ones of a sum or a product may be told apart in any way."""
    values = [operand.value for operand in step.operands]
    alike = {token for token in step.tokens if isinstance(token, str)} in ({"+"}, {"*"})
    found: list[Source] = []
    for n, value in enumerate(values):
        several = _candidates(problem, value, said, step.result.start) if alike and values.count(value) > 1 else []
        if len(several) == values.count(value) and all(one.kind in ("asked", "result") for one in several):
            found.append(several[values[:n].count(value)])
        else:
            found.append(_source(problem, value, said))
    return found


def _candidates(problem: WordProblem, value: Fraction, said: set[Fraction], before: int) -> list[Source]:
    """All that a number of this value, at the place `before` of the solution, may come from."""
    found = [
        Source("result", n)
        for n, step in enumerate(problem.steps)
        if step.result.value == value and step.result.start < before
    ]
    for n, one in enumerate(problem.asked):
        shares = _OF_PERCENT if one.percent else _OF_PERCENT[:2] if one.unit.startswith("cent") else _OF_PERCENT[:1]
        found += [Source("asked", n, *share) for share in shares if one.value * share[0] + share[1] == value]
        if one.percent and one.value * value == _HUNDRED:
            found.append(Source("inverse", n))
    return found + ([Source("meant", value=value)] if value in said else [])


def _source(problem: WordProblem, value: Fraction, said: set[Fraction], before: int = sys.maxsize) -> Source:
    """Where a number comes from; what is behind all candidates is held where there are several that differ."""
    found = _candidates(problem, value, said, before)
    if not found:
        raise Unmapped("a number of its solution is not in its question")
    if len(found) > 1 or found[0].kind == "inverse":
        if _always_equal(problem, found):
            return found[0]
        for one in found:
            problem.held |= problem.behind(one)
        return Source("meant", value=value)
    return found[0]


def _always_equal(problem: WordProblem, sources: Sequence[Source]) -> bool:
    """Whether these results are the same function of the question's numbers (tried with three sets of others)."""
    if any(source.kind != "result" for source in sources):
        return False
    for prime in (7, 11, 13):
        values = [one.value + Fraction(prime * (n + 2), 3) for n, one in enumerate(problem.asked)]
        results = problem.results(values)
        if results is None or len({results[source.index] for source in sources}) > 1:
            return False
    return True


def _explain_text(problem: WordProblem, said: set[Fraction]) -> None:
    """Sources of the numbers outside of calculations: those of the calculation beside them, else as of operands."""
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
