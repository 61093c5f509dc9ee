"""Answers that are generated, the rules that read them, and worked examples."""

import pytest

from evals.answers import NO_ANSWER, OTHER_ANSWER, generated
from evals.chain import parse_chain
from evals.extract import RULES
from evals.items import Item, OpenItem
from evals.metrics import metric_names, metrics
from evals.question import Pool, Question
from tests.evaluation_fixtures import make_items

LETTERS = [
    ("B", "ABCD", "B"), (" B. Paris", "ABCD", "B"), ("(C) because", "ABCD", "C"), ("**D**", "ABCD", "D"),
    ("The answer is B.", "ABCD", "B"), ("答案是B项", "ABCD", "B"), ("故选：D。", "ABCD", "D"), ("选C", "ABCD", "C"),
    ("First A is wrong; B is wrong. So the answer is (C).", "ABCD", "C"), ("$\\boxed{C}$", "ABCD", "C"),
    ("It's C, I'd say", "ABCD", "C"), ("I choose A because", "ABCD", "A"), ("A or B, who knows", "ABCD", None),
    ("A dog barks", "ABCD", None), ("Answer: A dog", "ABCD", None), ("Bananas", "ABCD", None), ("", "ABCD", None),
    ("二、苹果", "一二三四", "二"), ("一个苹果", "一二三四", None), ("★", "★▲■●", "★"), ("13", "1234", None),
    # What is denied is no answer, and two are none.
    ("Option A is incorrect. It is C.", "ABCD", "C"), ("不选A，应该是B", "ABCD", "B"),
    ("The answer is B or C", "ABCD", None), ("答案是B或者C", "ABCD", None), ("(A) or (B)", "ABCD", None),
    ("The answer is B or C. So the answer is C.", "ABCD", "C"), ("A and B are wrong. D", "ABCD", "D"),
    ("The answer is not A but D", "ABCD", "D"), ("The answer isn't A.", "ABCD", None), ("我选B，不选A。", "ABCD", "B"),
    ("A、B项错误，选C", "ABCD", "C"), ("答案A错误，应为D", "ABCD", "D"), ("排除A和B，C与D中D更好", "ABCD", None),
    ("不选一，选二", "一二三四", "二"), ("You can choose A; then again D", "ABCD", None),
    # A list of what is wrong behind a colon: the last word tells.
    ("Answer: A, B and C are wrong. D", "ABCD", "D"), ("Answer: A, B, and C are incorrect, so it is D.", "ABCD", "D"),
    ("答案：A、B和C都错。D", "ABCD", "D"), ("Answer: A, B and C are wrong", "ABCD", "A"),
    ("Answer: D, A and B are wrong. C is tempting", "ABCD", "D"),
    ("Answer: A, B and C are false. Vitamin D", "ABCD", None),  # D, or a word that is no option
    ("Answer: D, A and B are wrong. It is not C.", "ABCD", "D"),
    # What would or should be.
    ("The correct answer would be B. A is a distractor.", "ABCD", "B"), ("The answer must be C; A fails.", "ABCD", "C"),
    ("The answer should be B rather than A.", "ABCD", "B"), ("The answer should not be A but D", "ABCD", "D"),
    # A next question that the model asks itself.
    ("B\n\nQuestion: next?\nAnswer: D", "ABCD", "B"), ("The answer is A.\nQuestion 2: next?\nC", "ABCD", "A"),
    ("B\n题目：下一题\n答案：D", "ABCD", "B"), ("B or C\nQuestion: next?\nAnswer: D", "ABCD", None),
    # Full width, small letters that are no words, marks of LaTeX.
    ("Ｂ", "ABCD", "B"), ("（ｂ）", "ABCD", "B"), ("b", "ABCD", "B"), ("b) Paris", "ABCD", "B"), ("a", "ABCD", "A"),
    ("the answer is (c).", "ABCD", "C"), ("Answer: b", "ABCD", "B"), ("the answer is a", "ABCD", None),
    ("(B) A dog barks", "ABCD", "B"), ("because", "ABCD", None), ("答案：ｂ项", "ABCD", "B"),
    ("Question: once more?\nAnswer: D", "ABCD", "D"), ("Let us see.\nQuestion: once more?\nAnswer: D", "ABCD", "D"),
]  # fmt: skip
OTHERS = [
    ("letters", "AC", "AC"), ("letters", "C和A", "AC"), ("letters", "答案是A、C。", "AC"), ("letters", "B", "B"),
    ("letters", "The answers are A and D.", "AD"), ("letters", "Option B is wrong: the answer is AC", "AC"),
    ("letters", "B不对，故选AC", "AC"), ("letters", "不选A，选BC", "BC"),
    ("letters", "AC\n\nQuestion: next?\nAnswer: BD", "AC"), ("letters", "nothing", None), ("letters", "Apple", None),
    ("letters", "答案是a、c", "AC"), ("letters", "A, B, and D", "ABD"), ("letters", "(B) A dog", "B"),
    ("last_number", "so 1,234.50 dollars.", "1234.5"), ("last_number", "#### 18\n20", "18"),
    ("last_number", "16-3=13", "13"), ("last_number", "= -5", "-5"), ("last_number", "$80,000", "80000"),
    ("last_number", "0.50", "0.5"), ("last_number", "none", None), ("last_number", "1, 2, 3.", "3"),
    ("last_number", "#### $1,000", "1000"), ("last_number", "-0", "0"), ("number", "18 eggs, not 20", "18"),
    ("boxed", "so \\boxed{\\frac{1}{2}} ok", "0.5"), ("boxed", "\\boxed{1} \\boxed{1,000}", "1000"),
    ("boxed", "\\boxed{x", None), ("boxed", "no", None), ("stated", "So the answer is 42.", "42"),
    ("stated", "答案是北京。", "北京"), ("stated", "The answer is 3.5 m. Next", "3.5 m"), ("stated", "no", None),
    ("exact", " The Nile.\nIt flows", "nile"), ("exact", "１２", "12"), ("exact", "\n", None)]  # fmt: skip

NUMBERS = [
    ("−5", "-5"), ("it is –5.", "-5"), ("-.5", "-0.5"), ("- 5 eggs", "5"), ("9 - 5 = - 4", "-4"), ("-$5", "-5"),
    ("1\\,234", "1234"), ("1{,}234{,}567", "1234567"), ("1,\\!234", "1234"), ("1\u2009234.5", "1234.5"),
    ("12 345 km", "12345"), ("1'234.5", "1234.5"), ("1.234,56", "1234.56"), ("1.234.567", "1234567"),
    ("1\u202f234,5", "1234.5"), ("1,00,000", "100000"), ("1e5", "100000"), ("2.5E-3", "0.0025"), ("10^5", "100000"),
    ("1.5\\times 10^{3}", "1500"), ("3^2", "9"), ("5 m²", "5"), ("1.5万", "1.5 万"), ("0x1F", "31"), ("1千5百", "1500"),
    ("3/4", "0.75"), ("1/3", "1/3"), ("2½", "2.5"), ("\\frac{-3}{4}", "-0.75"), ("50\\%", "50%"), ("百分之50", "50%"),
    ("$5 million", "5 million"), ("3千万", "3 千万"), ("\\text{42}", "42"), ("10/2 = 5", "5"), ("2010 500", "500"),
    ("12345678901234567890123456789012", "12345678901234567890123456789012"),
    (r"2\frac{1}{2}", "2.5"), (r"2 \frac{1}{2}", "2.5"), (r"so $3\tfrac{1}{4}$", "3.25"), (r"\frac12", "0.5"),
    ("10^3^2", "1000000000"), ("The answer is - 5", "-5"), ("is:\n- 5", "5"), ("3亿5千万", "350000000"),
    (r"\frac{\sqrt{3}}{2}", r"\frac{\sqrt{3}}{2}"), (r"-2\sqrt{3}", r"-2\sqrt{3}"), (r"2\pi/3", r"2\pi/3"),
    (r"4\cdot10^5", "400000"), (r"4\quad", "4"), (r"\displaystyle7", "7"), (r"\left7\right.", "7"),
    (r"so\quad3\times10^2", "300"), ("10-15", None), ("5–6", None), ("2-1/2", None), ("±5", None), ("5‰", None),
    ("3万5", None), (r"0.\overline{3}", None), ("0.(3)", None), (r"\pm 5", None), ("10%-15%", None),
    # What may be read in two ways, or is a part of what is no plain number, is none.
    ("1,5", None), ("12,34", None), ("0,125", None), ("(1,2)", None), ("1,2345", None), ("1.5.2", None), ("3:30", None),
    ("2020-05-06", None), ("1/2/2020", None), ("5k", None), ("y = 2x", None), ("H2O", None), ("10^{10^{10}}", None),
]  # fmt: skip
BOXES = [
    ("18\\text{ dollars}", "18"), ("\\text{42}", "42"), ("\\boxed{7}", "7"), ("x = 1{,}000", "1000"), ("1,5", "1,5"),
    ("5\\text{ cm}^2", "5"), ("-\\dfrac{1}{2}", "-0.5"), ("\\text{even}", "even"), ("2\\sqrt{3}", "2\\sqrt{3}"),
]  # fmt: skip
OTHERS += [("last_number", *case) for case in NUMBERS]
OTHERS += [("boxed", f"so $\\boxed {{{box}}}$.", found) for box, found in BOXES]

CASES = [("letter", *case) for case in LETTERS] + [(name, text, "ABCD", found) for name, text, found in OTHERS]


@pytest.mark.parametrize(("name", "text", "labels", "found"), CASES)
def test_rules(name: str, text: str, labels: str, found: str | None) -> None:
    assert RULES.pick(name).extract(text, labels) == found


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", sorted(RULES))
def test_each_rule_reads_the_end_of_its_own_examples(name: str, lang: str) -> None:
    answer = {"letter": "C", "letters": "AD"}.get(name.removeprefix("stated_"), "1,234")
    found = RULES.pick(name).extract(RULES.pick(name).closing(answer, lang), "ABCD")
    assert found == RULES.pick(name).canonical(answer)


@pytest.mark.parametrize(("answer", "text", "chosen"), [
    ("50", "It is 50%.", 0), ("50%", "so 0.5", 0), ("0.5", "1/2", 0), ("1/3", "\\frac{1}{3}", 0),
    ("5", "-5", OTHER_ANSWER), ("1.5", "1,5", NO_ANSWER), ("1234", "1.234", OTHER_ANSWER), ("100000", "10⁵", 0),
    ("4", "$4 million", 0), ("4000000", "4 million", 0), ("30000000", "3千万", 0), ("4", "4000000", OTHER_ANSWER),
])  # fmt: skip
def test_numbers_are_right_by_their_value(answer: str, text: str, chosen: int) -> None:
    question = _question(OpenItem("n", "en", "How many?", answer), {"generative": {"extract": "last_number"}})
    assert generated(question, text).chosen == chosen


def _question(item: Item | OpenItem, spec: object = "generative") -> Question:
    [question] = parse_chain("generative", spec).questions(item, 0)
    return question


def test_generated_letters_are_the_options_they_name() -> None:
    for item in make_items(12):
        question = _question(item)
        plain = parse_chain("plain").questions(item, 0)[0]
        assert (question.prompt, question.chance) == (plain.prompt, 0.25)
        for place, label in enumerate("ABCD"):
            found = generated(question, f" {label}\nB")  # the stop cuts what follows
            assert (found.chosen, found.correct) == (place, place == item.answer)
        assert generated(question, "well").chosen == NO_ANSWER


def test_several_right_options_are_right_as_a_set() -> None:
    item = Item("p", "zh", "哪些是偶数？", ("1", "2", "3", "4"), 1, (1, 3))
    question = _question(item)
    assert question.generation
    assert (question.generation.answer, question.generation.extract, question.chance) == ("BD", "letters", 1 / 15)
    assert _question(item, "chain_of_thought").chance == 1 / 15
    assert [generated(question, text).correct for text in ("BD", "D、B", "B", "ABD", "不知道")] == [
        True, True, False, False, False]
    answers = [generated(question, text) for text in ("BD", "B", "不知道")]
    assert [a.chosen for a in answers] == [1, OTHER_ANSWER, NO_ANSWER]
    assert generated(_question(item, [{"labels": {"symbols": "stems"}}, "generative"]), "乙丁").correct


def test_metrics_of_generated_answers() -> None:
    items = [OpenItem(f"{n}", "en", f"What is {n} + 1?", f"{n + 1}") for n in range(4)]
    questions, _ = parse_chain("plain").all_questions(items, 0)
    texts = ["1", "The sum is 2.", "no idea", "5"]
    found = metrics([generated(question, text) for question, text in zip(questions, texts, strict=True)])
    assert {name: value.value for name, value in found.items()} == {"acc": 0.5, "unparsable": 0.25, "chance": 0.0}
    assert metric_names(questions) == ["acc", "unparsable", "chance"]


SUM = OpenItem("s", "en", "Tom has 3 hats and buys 4. How many?", "7", "He has 3 + 4 = <<3+4=7>>7 hats.")
PRODUCT = OpenItem("p", "en", "Ann has 2 bags of 5. How many?", "10", "She has 2 * 5 = <<2*5=10>>10.")


def test_worked_solutions_stand_in_the_examples() -> None:
    chain = parse_chain("x", [{"few_shot": {"n": 1}}, "generative"])
    [question], _ = chain.all_questions([SUM], 0, [PRODUCT, SUM])
    assert question.prompt == (
        "Question: Ann has 2 bags of 5. How many?\nAnswer: She has 2 * 5 = 10.\n#### 10\n\n"
        "Question: Tom has 3 hats and buys 4. How many?\nAnswer:")
    assert question.generation
    assert question.generation.stops == ("Question:",)
    chain = parse_chain("x", [{"few_shot": {"n": 1}}, {"generative": {"solution": False}}])
    [short] = chain.all_questions([SUM], 0, [PRODUCT])[0]
    assert "\nAnswer: #### 10\n\n" in short.prompt
    assert short.generation
    assert short.generation.stops == ("\n",)


def test_examples_come_from_the_pool_in_its_order_or_balanced() -> None:
    items, dev = make_items(8), make_items(40, seed=9)
    dev = [Item(f"dev/{i.id}", i.lang, f"Dev {i.question}", i.choices, i.answer) for i in dev]
    plain = parse_chain("plain")
    first, _ = parse_chain("x", {"few_shot": {"n": 2, "choose": "first"}}).all_questions(items, 0, dev)
    for question, item in zip(first, items, strict=True):
        shots = [shot for shot in dev if shot.lang == item.lang][:2]
        head = [f"{plain.questions(shot, 0)[0].prompt}{question.before}{'ABCD'[shot.answer]}\n\n" for shot in shots]
        assert question.prompt == "".join(head) + plain.questions(item, 0)[0].prompt
    balanced = parse_chain("x", {"few_shot": {"n": 4}})
    one, other = balanced.all_questions(items, 0, dev)[0], balanced.all_questions(items, 1, dev)[0]
    assert [q.prompt for q in one] != [q.prompt for q in other]
    assert one == balanced.all_questions(items, 0, dev[::-1])[0]
    assert all(sorted(_answers(question)) == ["A", "B", "C", "D"] for question in one)


def _answers(question: Question) -> list[str]:
    """Those of the examples."""
    cue = "\nAnswer: " if question.lang == "en" else "\n答案："
    return [part[0] for part in question.prompt.split(cue)[1:] if part]


def test_the_item_is_no_example_of_its_own() -> None:
    items = make_items(10)
    twin = Item("twin", "en", items[0].question.upper(), items[0].choices[::-1], 0)
    related = Item("related", "en", "Other?", ("p", "q", "r", "s"), 0, cluster="c")
    asked = Item("asked", "en", "Mine?", ("p", "q", "r", "s"), 0, cluster="c")
    chain = parse_chain("x", {"few_shot": {"n": 4, "choose": "first"}})
    pool = [*items, twin, related, asked]
    for item in pool:
        if item.lang == "en":
            prompt = chain.all_questions([item], 0, pool)[0][0].prompt
            assert prompt.casefold().count(item.question.casefold()) == 1
    assert "Mine?" not in chain.all_questions([related], 0, pool)[0][0].prompt
    questions, left_out = chain.all_questions(items[:4], 0)
    assert not questions
    assert left_out == {"there are fewer than 4 other items to make examples of": 4}


@pytest.mark.parametrize(("question", "choices", "shown"), [
    ("Ｗhich  river is\n“longest”？", ("the-Nile.", "Po", "Rhine"), True),
    ("Which river is longest?", ("the Nile", "Main", "Elbe"), True),  # another choice, but the answer is given away
    ("Which river is longest?", ("Elbe", "Volga", "Main"), False),
    ("Which river is long?", ("the Nile", "Po", "Rhine"), False)])  # fmt: skip
def test_an_example_does_not_give_the_answer_away_in_other_writing(
    question: str, choices: tuple[str, ...], shown: bool) -> None:
    item = Item("a", "en", "Which river is longest?", ("the Nile", "Po", "Rhine"), 0)
    right = next((n for n, choice in enumerate(choices) if "Nile" in choice), 1)
    others = [Item("b", "en", question, choices, right), Item("c", "en", "Which bird swims?", ("Owl", "Auk"), 1)]
    chain = parse_chain("x", {"few_shot": {"n": 1, "choose": "first"}})
    assert ("Which bird" in chain.questions(item, 0, Pool([item], others))[0].prompt) is shown
