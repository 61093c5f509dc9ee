"""The worked examples of docs/tasks.md are what the variants make."""

from pathlib import Path
from textwrap import indent

import pytest

from evals.chain import parse_chain
from evals.items import AnyItem, Item, OpenItem
from evals.question import Question
from evals.variants import VARIANTS

PAGE = (Path(__file__).parents[3] / "docs/tasks.md").read_text(encoding="utf-8")
CITIES = {
    "en": [("France", "Rome Paris Berlin Madrid", 1), ("Japan", "Osaka Kyoto Tokyo Nagoya", 2),
           ("Egypt", "Luxor Aswan Giza Cairo", 3), ("Kenya", "Mombasa Nairobi Kisumu Nakuru", 1),
           ("Cuba", "Havana Holguin Matanzas Cienfuegos", 0)],
    "zh": [("法国", "罗马 巴黎 柏林 马德里", 1), ("日本", "大阪 京都 东京 名古屋", 2),
           ("埃及", "卢克索 阿斯旺 吉萨 开罗", 3), ("肯尼亚", "蒙巴萨 内罗毕 基苏木 纳库鲁", 1),
           ("古巴", "哈瓦那 奥尔金 马坦萨斯 西恩富戈斯", 0)],
}  # fmt: skip
STEM = {"en": "What is the capital of {}?", "zh": "下列城市中，{}的首都是（ ）"}
SEVERAL = {"en": "Which of these numbers are even?", "zh": "下列各数中，偶数有（ ）"}
HEN = OpenItem(
    "hen", "en", "A hen lays 16 eggs a day. Jo eats three and sells the rest for $2 each. How much does she make?",
    "26", "She sells 16 - 3 = <<16-3=13>>13 eggs.\nShe makes 13 * 2 = $<<13*2=26>>26.",
)  # fmt: skip
OF_SEVERAL = ("one_right", "statements", "set")
EXAMPLES: dict[str, object] = {
    "plain": None,
    "cloze": {"cloze": {"every": True}},
    "options_in_text": None,
    "none_of_the_others": None,
    "none_control": {"none_of_the_others": {"drop": "wrong"}},
    "wicked": None,
    "labels": None,
    "symbols": {"labels": {"symbols": "★▲■●"}},
    "permuted": {"permuted": {"k": 1}},
    "teach_then_ask": ["teach_then_ask", {"permuted": {"k": 1}}, "labels"],
    "other_distractors": None,
    "paraphrased": None,
    "wrap": {"paraphrased": {"kind": "wrap"}},
    "few_shot": {"few_shot": {"n": 2}},
    "layout": {"layout": {"options": "lines", "before": "Q: "}},
    "one_right": "single_answers",
    "statements": {"single_answers": {"mode": "statements"}},
    "set": "generative",
}


def made(name: str, lang: str) -> list[Question]:
    """The questions of the page's item."""
    chain = parse_chain(name, EXAMPLES[name])
    several = Item("several", lang, SEVERAL[lang], ("1", "2", "3", "4"), 1, (1, 3))
    cities: list[AnyItem] = [
        Item(f"{n}", lang, STEM[lang].format(country), tuple(options.split()), answer, subject="geography")
        for n, (country, options, answer) in enumerate(CITIES[lang])
    ]
    questions, left_out = chain.all_questions([several] if name in OF_SEVERAL else cities, 0)
    assert not left_out
    return [question for question in questions if question.item in ("0", "several")]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_is_made(name: str, lang: str) -> None:
    question = made(name, lang)[0]
    right = question.generation.answer if question.generation else question.continuations[question.gold]
    assert f"{indent(question.prompt, '    ')}   → {right}" in PAGE


def test_the_word_problem_is_made() -> None:
    [draft] = parse_chain("changed_numbers").drafts(HEN, 1)
    for text in (HEN.question, HEN.solution, draft.question, draft.solution):
        assert indent(text, "    ") in PAGE


def test_each_variant_is_on_the_page() -> None:
    assert not [name for name in VARIANTS if f"`{name}`" not in PAGE]
