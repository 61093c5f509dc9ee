"""A word problem with other numbers, and its answer calculated again."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random

from pydantic import Field

from argosy.corpus.text.numerals import plain
from evals.extract.values import LastNumber
from evals.question import Draft
from evals.variants import NotApplicable, Variant
from evals.word_problem import Unmapped, WordProblem, template, value_of_source
from evals.word_problem.numbers import WORDS, QuestionNumber, Written

_TRIES = 60
_MOST_CHOICES = 200
_STEPS = [Fraction(n) * Fraction(10) ** e for e in range(6, -5, -1) for n in (5, Fraction(5, 2), 1)]
_MOST = {"day": 7, "days": 7, "hour": 24, "hours": 24, "minutes": 60, "seconds": 60, "months": 12, "weeks": 52}


class ChangedNumbers(Variant):
    """`k` versions of a problem with other numbers in question and worked solution (compare GSM-Symbolic, Mirzadeh et
    al. 2024; its templates are written by hand, these come from GSM8K's annotated calculations).

    A number becomes another one between its half and its double, written the same way; what was whole stays whole,
    what was positive positive, and the question's numbers stay in the same order of size. Numbers that have more than
    one possible source stay as they are (evals/word_problem/template.py). The answer is always another one."""

    name = "changed_numbers"
    open = True
    k: int = Field(1, ge=1)

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        if draft.choices:
            raise NotApplicable("has options, not a solution with calculations")
        try:
            problem = template(draft.question, draft.solution, Fraction(LastNumber().canonical(draft.answer)))
        except Unmapped as reason:
            raise NotApplicable(str(reason)) from None
        except ValueError:
            raise NotApplicable("its answer is no number") from None
        found: list[Draft] = []
        for _ in range(4 * self.k):
            made = _changed(problem, draft, rng)
            if made is None:
                break
            if made.question not in [one.question for one in found]:
                found.append(made)
            if len(found) == self.k:
                return found
        raise NotApplicable("no other numbers give results of the same kind")


def _changed(problem: WordProblem, draft: Draft, rng: Random) -> Draft | None:
    """Make one version: all numbers that can be are others, or if that is impossible, some of them."""
    free, last = problem.free, problem.answer.index
    choices = {n: _choices(problem.numbers[n]) for n in free}
    ranks = _ranks(problem.numbers)
    for attempt in range(_TRIES * 2):
        some = free if attempt < _TRIES else rng.sample(free, rng.randint(1, len(free)))
        values = [rng.choice(choices[n]) if n in some else one.value for n, one in enumerate(problem.numbers)]
        if any(values[a] >= values[b] for a, b in ranks):
            continue
        results = problem.results(values, lambda old, new: (  # still whole, positive and less than 1 where it was
            new >= 0 and (new > 0) == (old.value > 0) and (new < 1) == (old.value < 1) and old.like(new) is not None))
        if results is not None and results[last] != problem.steps[last].result.value:
            made = _written(problem, draft, values, results)
            if made is not None:
                return made
    return None


def _ranks(numbers: Sequence[QuestionNumber]) -> list[tuple[int, int]]:
    """List the pairs of numbers (percentages apart) of which the first is less than the second, and stays so."""
    order = sorted((n for n, one in enumerate(numbers) if not one.percent), key=lambda n: numbers[n].value)
    return [(a, b) for a, b in pairwise(order) if numbers[a].value < numbers[b].value]


def _choices(one: QuestionNumber) -> list[Fraction]:
    value = one.value  # and the greatest round step that it is a multiple of, at most its third
    step = next((step for step in _STEPS if step * 3 <= value and value % step == 0), _STEPS[-1])
    limits = [max(value * 2, value + 3)]
    limits += [Fraction(len(WORDS) - 1)] if one.at.text.lower() in WORDS else []
    limits += [Fraction(99)] if one.percent and value < 100 else []
    limits += [Fraction(_MOST[one.unit])] if value <= _MOST.get(one.unit, 0) else []
    first, last = math.ceil(value / 2 / step), math.floor(min(limits) / step)
    stride = max(1, (last - first) // _MOST_CHOICES)
    found = [n * step for n in range(first, last + 1, stride) if n * step != value and n * step > 1]
    return [other for other in found if one.fits(other)] or [value]


def _written(problem: WordProblem, draft: Draft, values: Sequence[Fraction],
             results: Sequence[Fraction]) -> Draft | None:
    """Write the texts with the new numbers; None where one cannot be written as the old one was."""
    given = [(one.at, value) for one, value in zip(problem.numbers, values, strict=True)]
    derived = [(at, value_of_source(source, values, results)) for at, source in problem.places]
    question, solution = _rewritten(problem.question, given), _rewritten(problem.solution, derived)
    last = problem.answer.index
    answer = problem.steps[last].result.like(results[last])
    if question is None or solution is None or answer is None:
        return None
    return replace(draft, question=question, solution=solution, answer=plain(answer))


def _rewritten(text: str, places: Sequence[tuple[Written, Fraction]]) -> str | None:
    parts, last = [], 0
    for at, value in sorted(places, key=lambda one: one[0].start):
        new = at.text if value == at.value else at.like(value)
        if new is None:
            return None
        parts += [text[last : at.start], new]
        last = at.end
    return "".join(parts) + text[last:]
