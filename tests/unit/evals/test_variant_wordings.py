"""Other words for a question, other wrong options, several answers as single ones, word problems with other numbers."""

import re
from collections import Counter
from fractions import Fraction
from functools import cache

import pytest

from evals.answers import Answer, answer
from evals.chain import parse_chain
from evals.formats import read_items
from evals.items import Item, OpenItem
from evals.metrics import metrics
from evals.question import Draft, Question
from evals.variants import NotApplicable
from evals.variants.paraphrased import stems, wraps
from evals.word_problem import template
from tests.evaluation_fixtures import make_items
from tests.shared_data import shared

STEMS = [
    ("Which of the following is true?", "Of the following, which is true?"),
    ("Which of the following statements about salt is true?", None),
    ("Which of the following statements is true of salt?", "Of the following statements, which is true of salt?"),
    ("A man fell. Which of the following is the cause?", "A man fell. Of the following, which is the cause?"),
    ("According to Kant, what is a duty?", "What is a duty, according to Kant?"),
    ("What is the capital of France?", "State the capital of France."),
    ("What is the tool in the box used for?", None),
    ("All of these are fish EXCEPT", "Except for one, all of these are fish. Which one is the exception?")]
ZH = [
    ("下列关于细胞的叙述，正确的是（ ）", "以下关于细胞的叙述中，哪一项是正确的？"), ("乘客陆续下列车时应", None),
    ("下列说法错误的是", "以下说法中，哪一项是错误的？"), ("这一变化的主要原因是（ ）", "这一变化的主要原因是什么？"),
    ("依次填入横线处，最恰当的一项是（）", "依次填入横线处，最恰当的是哪一项？")]  # fmt: skip


@pytest.mark.parametrize(("question", "other"), STEMS + ZH)
def test_stems(question: str, other: str | None) -> None:
    found = stems(question, "en" if question.isascii() else "zh")
    assert other in found if other else not found


def test_what_is_said_around_a_question_fits_it() -> None:
    assert all(text.endswith(" Who wrote it?") for text in wraps("Who wrote it?", "en"))
    assert wraps("The largest organ is the", "en")[0] == "Complete this sentence. The largest organ is the"
    assert wraps("The ____ is the largest organ.", "en")[0].startswith("Fill in the blank.")
    assert wraps("Find the square root of 2.", "en")[0].startswith("Here is a task.")
    assert wraps("谁写了它？", "zh")[0] == "请回答：谁写了它？"
    assert wraps("这一记载表明当时（ ）", "zh")[0].startswith("请把话说完整：")


def test_wordings_leave_the_options_and_their_order() -> None:
    for item in make_items(30):
        [plain] = parse_chain("plain").questions(item, 0)
        for spec in ({"paraphrased": {"k": 3}}, {"paraphrased": {"k": 0, "kind": "wrap"}}):
            questions = parse_chain("x", spec).questions(item, 0)
            assert len({q.prompt for q in questions}) == len(questions) == 3
            for question in questions:
                assert question.prompt != plain.prompt
                assert question.prompt.endswith(plain.prompt.removeprefix(item.question))
                assert (question.gold, question.origin) == (plain.gold, plain.origin)
    _, left_out = parse_chain("x", {"paraphrased": {"kind": "stem"}}).all_questions(make_items(1), 0)
    assert left_out == {"its stem is of no known pattern": 1}


def _subject(n: int, question: str = "Which organ pumps blood?", size: int = 6) -> Item:
    return Item(f"i{n}", "en", question, tuple(f"{'organ' * (n % 4 + 1)} {n}-{c}"[:60] for c in range(size - 2)), n % 4,
                subject="anatomy")  # fmt: skip


def test_distractors_are_other_items_options_of_the_same_subject() -> None:
    items = [_subject(n) for n in range(40)]
    others = [Item(f"o{n}", "en", "Which?", (f"other {n}", "b", "c", "d"), 0, subject="law") for n in range(20)]
    questions, _ = parse_chain("other_distractors").all_questions([*items, *others], 0)
    by_id = {item.id: item for item in items}
    known = {choice for item in items for choice in item.choices}
    made = [q for q in questions if q.item in by_id]
    assert len(made) == 40
    for question in made:
        item = by_id[question.item]
        listed = set(re.split(r" ?[A-D]\. ", question.prompt.split("\n")[1])[1:])
        assert item.choices[item.answer] in question.prompt
        assert sum(choice in question.prompt for choice in item.choices) == 1
        assert listed <= known
        assert question.origin[question.gold] == item.answer
        assert all(origin < -1 for place, origin in enumerate(question.origin) if place != question.gold)
    again, _ = parse_chain("other_distractors").all_questions([*reversed(items), *others], 0)
    assert {q.id: q.prompt for q in again if q.item in by_id} == {q.id: q.prompt for q in made}


@pytest.mark.parametrize("question", ["Which is NOT a bone?", "What is the largest?", "下列说法正确的是"])
def test_where_any_option_may_be_right_there_are_no_other_distractors(question: str) -> None:
    lang = "en" if question.isascii() else "zh"
    items = [Item(f"{n}", lang, question, tuple(f"o{n}{c}" for c in range(4)), 0) for n in range(30)]
    questions, left_out = parse_chain("other_distractors").all_questions(items, 0)
    assert not questions
    assert left_out == {"an option of another question may be right here": 30}


SEVERAL = Item("m", "zh", "哪些是偶数？", ("1", "2", "3", "4", "6"), 1, (1, 3, 4))


def test_several_answers_become_questions_with_one_each() -> None:
    questions = parse_chain("single_answers").questions(SEVERAL, 0)
    assert [q.origin for q in questions] == [(0, 1, 2), (0, 2, 3), (0, 2, 4)]
    assert [q.origin[q.gold] for q in questions] == [1, 3, 4]
    assert [q.id for q in questions] == ["m#0", "m#1", "m#2"]
    for name in ("plain", "cloze", "none_of_the_others", "reading"):
        _, left_out = parse_chain(name).all_questions([SEVERAL], 0)
        assert left_out == {"has several right options (single_answers or generative ask for them)": 1}
    every = Item("e", "en", "Q?", ("a", "b"), 0, (0, 1))
    _, left_out = parse_chain("single_answers").all_questions([every], 0)
    assert left_out == {"all its options are right": 1}


def _answer(question: Question, right: bool) -> Answer:
    found = answer(question, [float((n == question.gold) == right) for n in range(len(question.continuations))])
    assert found
    return found


def test_the_whole_set_is_right_where_all_its_questions_are() -> None:
    other = Item("n", "zh", "哪些是奇数？", ("1", "2", "3"), 0, (0, 2))
    questions, _ = parse_chain("single_answers").all_questions([SEVERAL, other], 0)
    found = metrics([_answer(q, q.id != "m#1") for q in questions])
    assert (found["acc"].value, found["acc_all"].value, found["acc_all"].n) == (0.8, 0.5, 2)
    assert set(found) == {"acc", "acc_all", "chance"}  # they are not one question in several orders
    assert found["chance"].value == pytest.approx((3 / 3 + 2 / 2) / 5)


ANNOTATION = re.compile(r"<<([^<>=]*)=([^<>=]*)>>")
CHAIN = parse_chain("changed_numbers")


def _problem(question: str, solution: str, answer: str) -> OpenItem:
    return OpenItem("x", "en", question, answer, solution)


@cache
def _gsm8k() -> tuple[list[tuple[OpenItem, Draft]], Counter[str], int]:
    """Those that can be made, why others cannot, and how many there are."""
    file = shared("gsm8k/grade_school_math__data__test.jsonl")
    items = [item for item in read_items(file, format="gsm8k").items if isinstance(item, OpenItem)]
    found, left_out = [], Counter[str]()
    for item in items:
        try:
            found.append((item, CHAIN.drafts(item, 0)[0]))
        except NotApplicable as reason:
            left_out[str(reason)] += 1
    return found, left_out, len(items)


def test_a_solid_share_of_gsm8k_can_be_made_and_every_calculation_of_it_is_right() -> None:
    """By Python's own arithmetic, not the variant's; only numbers are others, and whole ones stay whole."""
    found, left_out, n = _gsm8k()
    assert len(found) + left_out.total() == n == 1319
    assert len(found) > 0.6 * n
    assert len({draft.answer for _, draft in found}) > 300
    words = re.compile(r"\d[\d,]*\.?\d*|\.\d+|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b", re.I)
    for item, draft in found:
        results = []
        for left, right in ANNOTATION.findall(draft.solution):
            digits = re.sub(r"(?<![\d.])0+(?=\d)", "", re.sub(r"[$,]", "", left)).replace("x", "*")
            exact = re.sub(r"\d*\.?\d+%?", lambda number: f"Fraction('{number[0].rstrip('%')}')" +
                           ("/100" if number[0].endswith("%") else ""), digits)  # fmt: skip
            results.append(Fraction(right.replace(",", "")))
            assert eval(exact, {"Fraction": Fraction}) == results[-1], (item.id, left, right)
            assert "." in item.solution or "." not in right
        assert draft.answer != item.answer
        assert Fraction(draft.answer) > 0
        if not any(mark in item.solution.rpartition(">>")[2] for mark in "=/"):  # its last calculation is annotated
            assert Fraction(draft.answer) in results
        for before, after in ((item.question, draft.question), (item.solution, draft.solution)):
            assert words.sub("", before) == words.sub("", after)
            assert before != after


@pytest.mark.parametrize(("item", "reason"), [
    (_problem("Ed has 5 hats and 7 caps. How many?", "12", "12"), "no annotated calculations"),
    (_problem("Ed has 5 hats. How many legs?", "<<5*9=45>>45", "45"), "not in its question"),
    (_problem("Ed has 5 hats.", "<<5+1=7>>7", "7"), "cannot be read, or is not exact"),
    (_problem("Ed has 5 hats and 5 caps, which are 5 each.", "<<5*5=25>>25", "25"), "told from others"),
    (_problem("Ed has 5 hats and 7 caps.", "<<5+7=12>>12", "13"), "no calculation's result")])
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
