"""Word problems with other numbers: of GSM8K's, each is calculated again by another reader."""

import re
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from evals.chain import parse_chain
from evals.formats import read_items
from evals.items import OpenItem
from evals.question import Draft
from evals.variants import NotApplicable
from evals.word_problem import template

GSM8K = Path(__file__).parents[4] / "shared/data/gsm8k/grade_school_math__data__test.jsonl"
ANNOTATION = re.compile(r"<<([^<>=]*)=([^<>=]*)>>")
CHAIN = parse_chain("changed_numbers")


def _problem(question: str, solution: str, answer: str) -> OpenItem:
    return OpenItem("x", "en", question, answer, solution)


EGGS = _problem(
    "A hen lays 16 eggs. Jo eats three and sells the rest for $2 each. How much does she make?",
    "She sells 16 - 3 = <<16-3=13>>13 eggs.\nShe makes 13 * 2 = $<<13*2=26>>26.", "26",
)  # fmt: skip


@cache
def _gsm8k() -> tuple[list[tuple[OpenItem, Draft]], Counter[str], int]:
    """Those that can be made, why others cannot, and how many there are."""
    if not GSM8K.is_file():
        pytest.skip(f"{GSM8K} is not there: GSM8K is read from beside the checkout")
    items = [item for item in read_items(GSM8K, format="gsm8k").items if isinstance(item, OpenItem)]
    found, left_out = [], Counter[str]()
    for item in items:
        try:
            found.append((item, CHAIN.drafts(item, 0)[0]))
        except NotApplicable as reason:
            left_out[str(reason)] += 1
    return found, left_out, len(items)


def test_a_solid_share_of_gsm8k_can_be_made_and_the_rest_is_counted() -> None:
    found, left_out, n = _gsm8k()
    assert len(found) + left_out.total() == n == 1319
    assert len(found) > 0.6 * n
    assert len({draft.answer for _, draft in found}) > 300


def test_every_calculation_of_every_changed_problem_is_right() -> None:
    """Python's own arithmetic, not the variant's."""
    for item, draft in _gsm8k()[0]:
        results = []
        for left, right in ANNOTATION.findall(draft.solution):
            digits = re.sub(r"(?<![\d.])0+(?=\d)", "", re.sub(r"[$,]", "", left)).replace("x", "*")
            exact = re.sub(r"\d*\.?\d+%?", lambda number: f"Fraction('{number[0].rstrip('%')}')" +
                           ("/100" if number[0].endswith("%") else ""), digits)  # fmt: skip
            assert eval(exact, {"Fraction": Fraction}) == Fraction(right.replace(",", "")), (item.id, left, right)
            results.append(Fraction(right.replace(",", "")))
        assert draft.answer != item.answer
        assert Fraction(draft.answer) > 0
        if not any(mark in item.solution.rpartition(">>")[2] for mark in "=/"):  # its last calculation is annotated
            assert Fraction(draft.answer) in results


def test_only_numbers_are_others_and_they_are_so_in_both_texts() -> None:
    words = re.compile(r"\d[\d,]*\.?\d*|\.\d+|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b", re.I)
    for item, draft in _gsm8k()[0]:
        for before, after in ((item.question, draft.question), (item.solution, draft.solution)):
            assert words.sub("", before) == words.sub("", after)
        assert item.question != draft.question
        assert item.solution != draft.solution
        # Whole numbers stay whole.
        if "." not in item.solution:
            assert "." not in "".join(right for _, right in ANNOTATION.findall(draft.solution))


def test_the_seed_decides() -> None:
    assert CHAIN.drafts(EGGS, 1) == CHAIN.drafts(EGGS, 1)
    versions = {CHAIN.drafts(EGGS, seed)[0].question for seed in range(20)}
    assert len(versions) > 10
    several = parse_chain("x", {"changed_numbers": {"k": 3}}).questions(EGGS, 0)
    assert [question.id for question in several] == ["x#0", "x#1", "x#2"]
    assert len({question.prompt for question in several}) == 3


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (_problem("Ed has 5 hats and 7 caps. How many?", "12", "12"), "no annotated calculations"),
        (_problem("Ed has 5 hats. How many legs?", "<<5*9=45>>45", "45"), "not in its question"),
        (_problem("Ed has 5 hats.", "<<5+1=7>>7", "7"), "cannot be read, or is not exact"),
        (_problem("Ed has 5 hats and 5 caps, which are 5 each.", "<<5*5=25>>25", "25"), "told from others"),
        (_problem("Ed has 5 hats and 7 caps.", "<<5+7=12>>12", "13"), "no calculation's result"),
    ],
)
def test_what_cannot_be_mapped_is_left_out(item: OpenItem, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        CHAIN.drafts(item, 0)


def test_numbers_with_two_possible_sources_stay() -> None:
    """The 2 may be the boxes or "twice"; the 12 hours are half a day; 10 and 6 are what 16 is made of."""
    item = _problem("Al has 2 boxes, Bo twice as many, each of 30 nails. How many has Bo?",
                    "Bo has 2*2=<<2*2=4>>4 boxes.\nHe has 4*30=<<4*30=120>>120 nails.", "120")  # fmt: skip
    problem = template(item.question, item.solution, Fraction(120))
    assert [problem.numbers[n].value for n in problem.free] == [30]
    item = _problem("Of 16 guests, 10 eat fish at $7 and 6 eat beans at $4. What does it cost?",
                    "<<10*7=70>>70\n<<6*4=24>>24\n<<70+24=94>>94", "94")  # fmt: skip
    problem = template(item.question, item.solution, Fraction(94))
    assert [problem.numbers[n].value for n in problem.free] == [7, 4]


def test_percentages_are_followed() -> None:
    item = _problem("A coat of $80 is 25% off. What does it cost?", "It costs 80*.75=$<<80*.75=60>>60.", "60")
    for seed in range(8):
        [draft] = CHAIN.drafts(item, seed)
        price, percent = (int(number) for number in re.findall(r"\d+", draft.question))
        assert Fraction(draft.answer) == price * Fraction(100 - percent, 100)
