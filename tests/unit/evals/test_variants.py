"""Orders, labels, added options of variants and the examples of docs/tasks.md; test_every_variant.py has the rest."""

from collections import Counter
from pathlib import Path
from textwrap import indent

import pytest
import yaml

from argosy.core.errors import InputError
from argosy.corpus.demo.facts import render_quiz
from evals.chain import parse_chain
from evals.items import AnyItem, Item, OpenItem
from evals.question import SEPARATOR, Question
from evals.variants import VARIANTS
from tests.evaluation_fixtures import make_items


@pytest.mark.parametrize(("options", "k", "orders", "places"), [
    (4, 4, 4, 4), (4, 8, 8, 4), (4, 12, 12, 4), (6, 12, 12, 6), (3, 3, 3, 3), (4, 1, 1, 1), (4, 3, 3, 3), (3, 9, 5, 3),
    (4, 30, 23, 4)])
def test_orders_are_others_with_the_right_option_at_each_place_equally_often_and_few_leave_its_own_out(
    options: int, k: int, orders: int, places: int) -> None:
    for item in make_items(60, options=options):
        questions = parse_chain("permuted", {"permuted": {"k": k}}).questions(item, 0)
        made = {question.origin for question in questions}
        assert len(made) == len(questions) == orders
        assert tuple(range(options)) not in made
        golds = Counter(question.gold for question in questions)
        assert len(golds.keys() - ({item.answer} if k < options else set())) == places
        assert k != orders or len({*golds.values()}) == 1
        at_places = [Counter(order[place] for order in made) for place in range(options)]
        assert k != options or at_places == [dict.fromkeys(range(options), 1)] * options


def test_the_published_form_is_the_corpus_own() -> None:
    """What the twin was tuned on is this prompt, character by character."""
    for item in make_items(40):
        (question,) = parse_chain("plain").questions(item, 0)
        quiz = render_quiz(item.question, item.choices, item.answer, item.lang)
        answer = SEPARATOR[item.lang] + question.continuations[question.gold]
        assert (question.prompt, answer) == (quiz.text_prompt, quiz.text_answer)


@pytest.mark.parametrize(("question", "choices"), [
    ("Q?", ["a", "b", "c", "All of the above"]),
    ("Q?", ["a", "b", "c", "Both A and B"]),
    ("问？", ["甲", "乙", "以上都对", "丙"])])
def test_options_about_options_are_left_out_and_counted(question: str, choices: list[str]) -> None:
    item = Item("x", "en", question, tuple(choices), 0)
    for name in ("permuted", "none_of_the_others", "labels", "reading", "cloze"):
        questions, left_out = parse_chain(name).all_questions([item], 0)
        assert not questions
        assert sum(left_out.values()) == 1
    assert parse_chain("plain").all_questions([item], 0)[0]


def test_a_template_of_one_language_is_checked_in_that_alone() -> None:
    assert parse_chain("told", [{"template": {"prompt": {"en": "{question} Is it {text}?"}, "answer": "Yes"}}])


@pytest.mark.parametrize(("spec", "message"), [
    ("permutd", "did you mean 'permuted'"), ({"permuted": {"kk": 2}}, "kk is not a field; nearest: k"),
    ({"none_of_the_others": {"drop": "left"}}, "allowed: 'right', 'wrong' or 'either'"),
    ({"labels": {"symbols": "AAB"}}, "different characters"), ({"few_shot": {"n": -1}}, "n is -1"),
    ({"template": {"prompt": "{question} {foo}"}}, "prompt has {foo}; allowed: {question}, {options}"),
    ({"template": {"prompt": {"fr": "{question}"}}}, "fr"),
    ({"template": {"prompt": 3}}, "template: prompt is wrong: it is 3, allowed: a text in quotes .* {en: TEXT"),
    ({"template": {"prompt": {"en": [1]}}}, "^variant template: prompt is wrong: en of it is .1., allowed: a text"),
    ({"template": {"prompt": {"fr": "x"}}}, "template: prompt is wrong: it has the language 'fr', allowed: en"),
    ({"template": {"prompt": "{Question}"}}, "prompt has {Question}"),
    ({"template": {"prompt": "{question}{options}", "option": "- {text}", "answer": "{label}"}}, "that show labels"),
    ({"template": {"prompt": "hi"}}, "prompt has no {question}"),
    ({"template": {"prompt": "{question}", "answer": "{label}"}}, "let answer be {text}"),
    ({"template": {"prompt": "{question}", "answer": "Yes"}}, "the same for all options"),
    ({"generative": {"extract": "guess"}}, "unknown rule 'guess'.*last_number")])
def test_unknown_names_and_values_are_named(spec: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_chain("x", spec)


@pytest.mark.parametrize("chain", [["wicked", "permuted"], ["wicked", "pride"], ["wicked", "cloze"],
                                   ["none_of_the_others", {"cloze": {"every": True}}]])  # fmt: skip
def test_an_added_option_is_not_moved_before_those_it_speaks_of_nor_asked_without_them(chain: list[object]) -> None:
    items = make_items(8)
    assert parse_chain("x", chain[:1]).all_questions(items, 0)[0]
    questions, left_out = parse_chain("x", chain).all_questions(items, 0)
    assert not questions
    assert [n for why, n in left_out.items() if why.startswith("an added option speaks of")] == [8]


@pytest.mark.parametrize("option", ["Both A and B", "neither (a) nor (b).", "A and C only", "A和B", "Options A and B"])
def test_options_in_text_leave_out_what_names_labels(option: str) -> None:
    item = Item("x", "en", "Q?", ("a rat", "vitamins A and D of fish", "c", option), 0)
    found, left_out = parse_chain("options_in_text").all_questions([item], 0)
    assert (found, left_out) == ([], {"an option names labels, which are not shown": 1})
    shown = Item("x", "en", "Q?", item.choices[:3], 0)
    assert parse_chain("options_in_text").all_questions([shown], 0)[0]


@pytest.mark.parametrize("end", ["（", "(", "（ ）", "（（）", "（ $(\\quad)$"])
def test_no_bracket_for_the_answer_stays_open_before_options_in_text(end: str) -> None:
    item = Item("x", "zh", f"该球面的表面积为{end}", ("8", "9"), 0)
    (question,) = parse_chain("options_in_text").questions(item, 0)
    assert question.prompt.startswith("该球面的表面积为：8还是9？")


PAGE = (Path(__file__).parents[3] / "docs/tasks.md").read_text(encoding="utf-8")
CITIES = {
    "en": [("France", "Rome Paris Berlin Madrid", 1), ("Japan", "Osaka Kyoto Tokyo Nagoya", 2),
           ("Egypt", "Luxor Aswan Giza Cairo", 3), ("Kenya", "Mombasa Nairobi Kisumu Nakuru", 1),
           ("Cuba", "Havana Holguin Matanzas Cienfuegos", 0)],
    "zh": [("法国", "罗马 巴黎 柏林 马德里", 1), ("日本", "大阪 京都 东京 名古屋", 2),
           ("埃及", "卢克索 阿斯旺 吉萨 开罗", 3), ("肯尼亚", "蒙巴萨 内罗毕 基苏木 纳库鲁", 1),
           ("古巴", "哈瓦那 奥尔金 马坦萨斯 西恩富戈斯", 0)]}  # fmt: skip
STEM = {"en": "What is the capital of {}?", "zh": "下列城市中，{}的首都是（ ）"}
SEVERAL = {"en": "Which of these numbers are even?", "zh": "下列各数中，偶数有（ ）"}
HEN = OpenItem(
    "hen", "en", "A hen lays 16 eggs a day. Jo eats three and sells the rest for $2 each. How much does she make?",
    "26", "She sells 16 - 3 = <<16-3=13>>13 eggs.\nShe makes 13 * 2 = $<<13*2=26>>26.")  # fmt: skip
OF_SEVERAL = ("one_right", "statements", "set")
EXAMPLES: dict[str, object] = {
    **dict.fromkeys(("plain", "options_in_text", "none_of_the_others", "wicked", "labels", "other_distractors",
                     "paraphrased")),
    "cloze": {"cloze": {"every": True}},
    "as_text": "options_as_text", "as_text_labels": [{"options_as_text": {"answer": "label"}}, "labels"],
    "template": yaml.safe_load(PAGE.split("`template`:")[1].split("variants:\n")[1].split("        - {few")[0])["told"],
    "none_own": {"none_of_the_others": {"place": "own"}}, "none_control": {"none_of_the_others": {"drop": "wrong"}},
    "permuted": {"permuted": {"k": 1}}, "reading": ["reading", {"permuted": {"k": 1}}, "labels"],
    "wrap": {"paraphrased": {"kind": "wrap"}}, "few_shot": {"few_shot": {"n": 2}},
    "layout": {"layout": {"options": "lines", "before": "Q: "}},
    "one_right": "single_answers", "statements": {"single_answers": {"mode": "statements"}},
    "set": "generative", "cot": "chain_of_thought"}  # fmt: skip


def made(name: str, lang: str) -> list[Question]:
    """The questions of the page's item."""
    chain = parse_chain(name, EXAMPLES[name])
    several = Item("several", lang, SEVERAL[lang], ("1", "2", "3", "4"), 1, (1, 3))
    cities: list[AnyItem] = [
        Item(f"{n}", lang, STEM[lang].format(country), tuple(options.split()), answer, subject="geography")
        for n, (country, options, answer) in enumerate(CITIES[lang])]
    questions, left_out = chain.all_questions([several] if name in OF_SEVERAL else cities, 0)
    assert not left_out
    return [question for question in questions if question.item in ("0", "several")]


ONCE = {"as_text": "en", "as_text_labels": "zh", "template": "en", "layout": "en", "cot": "en", "wrap": "zh",
        "statements": "zh"}


@pytest.mark.parametrize(("name", "lang"), [(name, lang) for name in EXAMPLES for lang in ("en", "zh")
                                            if ONCE.get(name, lang) == lang])  # fmt: skip
def test_each_example_is_made(name: str, lang: str) -> None:
    question = made(name, lang)[0]
    right = question.generation.answer if question.generation else question.continuations[question.gold]
    assert f"{indent(question.prompt, '    ')}   → {right}" in PAGE


def test_the_word_problem_is_made_and_each_variant_is_named() -> None:
    [draft] = parse_chain("changed_numbers").drafts(HEN, 1)
    for text in (HEN.question, HEN.solution, draft.question, draft.solution):
        assert indent(text, "    ") in PAGE
    assert not [name for name in VARIANTS if f"`{name}`" not in PAGE]
