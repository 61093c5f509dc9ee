"""What every variant promises of every item, and the items that are checked."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from evals.items import Item, read_items
from evals.question import Question
from evals.variants import Chain, NotApplicable, parse_chain
from evals.variants.none_of_the_others import NONE
from tests.evaluation_fixtures import make_items

MMLU = Path(__file__).parents[2] / "shared/data/mmlu"
CHAINS = {
    "plain": None,
    "cloze": None,
    "options_in_text": None,
    "none_of_the_others": None,
    "none_control": {"none_of_the_others": {"drop": "wrong"}},
    "none_either": {"none_of_the_others": {"drop": "either"}},
    "numerals": "labels",
    "stems": {"labels": {"symbols": "stems"}},
    "symbols": {"labels": {"symbols": "★▲■●◆○△□◇♠"}},
    "permuted": {"permuted": {"k": 4}},
    "all_orders": {"permuted": {"k": 0}},
    "teach_then_ask": ["teach_then_ask", {"permuted": {"k": 1}}, "labels"],
    "woven_none": [{"none_of_the_others": {"drop": "either"}}, "permuted", "options_in_text"],
}
CHAIN = [parse_chain(name, spec) for name, spec in CHAINS.items()]


def generated_items() -> list[Item]:
    found = make_items(120) + make_items(40, seed=1, options=3) + make_items(24, seed=2, options=2)
    found = [Item(f"{n}", i.lang, i.question, i.choices, i.answer) for n, i in enumerate(found)]
    return found + make_items(24, seed=3, options=6)


@cache
def mmlu_items() -> list[Item]:
    if not MMLU.is_dir():
        pytest.skip(f"{MMLU} is not there: MMLU is read from beside the checkout")
    return [item for path in sorted(MMLU.glob("*test*.csv")) for item in read_items(path).items]


def made(chain: Chain, found: list[Item]) -> list[tuple[Item, list[Question]]]:
    pairs = []
    for item in found:
        try:
            pairs.append((item, chain.questions(item, 0)))
        except NotApplicable:
            continue
    assert len(pairs) > len(found) / 3
    return pairs


def check(chain: Chain, item: Item, questions: list[Question]) -> None:
    """One right option in each question, and each continuation stands for what `origin` says."""
    right = item.choices[item.answer]
    for question in questions:
        assert question.item == item.id
        assert len(question.continuations) == len(question.origin) == len(set(question.continuations))
        assert len(set(question.origin)) == len(question.origin)
        by_origin = dict(zip(question.origin, question.continuations, strict=True))
        gold_origin = question.origin[question.gold]
        assert gold_origin == item.answer if item.answer in question.origin else gold_origin == -1
        assert (-1 in question.origin) == any("none" in name or "woven" in name for name in [chain.name])
        assert len(question.origin) == len(item.choices)
        for origin, text in by_origin.items():
            if not question.labelled and origin >= 0:
                assert text == item.choices[origin]
        if question.labelled:
            listed = question.prompt.rpartition("\n")[0].rpartition("\n")[2]
            for origin, label in by_origin.items():
                option = item.choices[origin] if origin >= 0 else NONE[item.lang]
                assert any(f"{label}{mark}{option}" in question.prompt for mark in (". ", ".", "、")), listed
    if chain.name == "none_of_the_others":
        dropped = questions[0]
        assert item.answer not in dropped.origin
        assert dropped.gold == len(dropped.origin) - 1
        if not any(other.startswith(right) for other in (*item.choices, NONE[item.lang]) if other != right):
            marks = [f"{label}{mark}{right}" for label in "ABCD" for mark in (". ", ".")]
            assert not any(mark in dropped.prompt.removeprefix(item.question) for mark in marks)
