"""Answers that are generated, the rules that read them, and worked examples."""

from pathlib import Path

import pytest
import yaml

from evals.answers import NO_ANSWER, OTHER_ANSWER, generated
from evals.chain import parse_chain
from evals.extract import RULES
from evals.items import Item, OpenItem
from evals.metrics import metric_names, metrics
from evals.question import Pool, Question
from tests.evaluation_fixtures import make_items

TABLES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
LETTERS, OTHERS, NUMBERS, BOXES = TABLES.values()

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
