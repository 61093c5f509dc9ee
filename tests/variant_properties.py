"""What every variant promises of every item, and the items that are checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

from evals.chain import Chain, parse_chain
from evals.items import Item
from evals.question import CUE, Draft, Pool, Question
from evals.reading import read_items
from evals.variants import NotApplicable
from evals.variants.single_answers import YES_NO
from tests.evaluation_fixtures import make_items

DATA = Path(__file__).parents[2] / "shared/data"
CHAINS = {
    "plain": None,
    "cloze": None,
    "options_in_text": None,
    "none_of_the_others": None,
    "none_control": {"none_of_the_others": {"drop": "wrong"}},
    "none_either": {"none_of_the_others": {"drop": "either"}},
    "wicked": None,
    "numerals": "labels",
    "stems": {"labels": {"symbols": "stems"}},
    "digits": {"labels": {"symbols": "digits"}},
    "symbols": {"labels": {"symbols": "★▲■●◆○△□◇♠"}},
    "permuted": {"permuted": {"k": 4}},
    "all_orders": {"permuted": {"k": 0}},
    "pride": None,
    "teach_then_ask": ["teach_then_ask", {"permuted": {"k": 1}}, "labels"],
    "woven_none": [{"none_of_the_others": {"drop": "either"}}, {"permuted": {"k": 1}}, "options_in_text"],
    "other_distractors": None,
    "one_right": "single_answers",
    "statements": {"single_answers": {"mode": "statements"}},
    "paraphrased": None,
    "generative": None,
    "few_shot": {"few_shot": {"n": 4}},
}
CHAIN = [parse_chain(name, spec) for name, spec in CHAINS.items()]
NONE = ("none_of_the_others", "none_control", "none_either", "woven_none", "wicked")
Made = list[tuple[Item, list[Draft], list[Question]]]


def generated_items() -> list[Item]:
    found = make_items(120) + make_items(40, seed=1, options=3) + make_items(24, seed=2, options=2)
    found += make_items(24, seed=3, options=6)
    return [Item(f"{n}", i.lang, i.question, i.choices, i.answer) for n, i in enumerate(found)]


@cache
def benchmark(name: str) -> list[Item]:
    """All items of a benchmark of the shared data: mmlu, gaokao or openbookqa."""
    where = {"mmlu": ("mmlu/*test*.csv", ""), "gaokao": ("gaokao_bench/*Objective_Q*.json", "gaokao"),
             "openbookqa": ("commonsense_mc/*openbookqa*.json", "instructions")}  # fmt: skip
    pattern, form = where[name]
    files = [path for path in sorted(DATA.glob(pattern)) if "Subjective" not in path.name]
    if not files:
        pytest.skip(f"{DATA / pattern} is not there: benchmarks are read from beside the checkout")
    items = [item for path in files for item in read_items(path, format=form).items]
    return [item for item in items if isinstance(item, Item)]


def made(chain: Chain, found: Sequence[Item], at_least: float = 1 / 3) -> Made:
    """Every item that the chain can be made of, with its drafts and questions."""
    pool, all_made = Pool(found), []
    for item in found:
        try:
            drafts = chain.drafts(item, 0, pool)
            # Only few-shot examples are not in a draft.
            questions = chain.questions(item, 0, pool) if drafts[0].few_shot else _rendered(drafts)
        except NotApplicable:
            continue
        all_made.append((item, drafts, questions))
    assert len(all_made) > len(found) * at_least
    return all_made


def _rendered(drafts: list[Draft]) -> list[Question]:
    return [draft.render(n if len(drafts) > 1 else None) for n, draft in enumerate(drafts)]


def check(chain: Chain, item: Item, drafts: Sequence[Draft], questions: Sequence[Question]) -> None:
    """One right option in each question, each option stands for what `origin` says, and each is in the prompt."""
    rights = set(item.answers or (item.answer,))
    for draft, question in zip(drafts, questions, strict=True):
        assert question.item == item.id
        assert question.origin == draft.origin
        assert len(set(draft.origin)) == len(draft.origin) == len(draft.choices) == len(set(draft.choices))
        if chain.name == "statements":
            _check_statement(item, draft, question, rights)
            continue
        places = [place for place, origin in enumerate(draft.origin) if origin in rights]
        assert places == list(draft.rights) if places else draft.origin[draft.gold] == -1
        assert (-1 in draft.origin) == (chain.name in NONE)
        for origin, text in zip(draft.origin, draft.choices, strict=True):
            assert text == item.choices[origin] if origin >= 0 else text not in item.choices
        if question.generation:
            assert question.generation.answer == "".join(draft.labels[place] for place in draft.rights)
            assert question.continuations == ()
        else:
            assert len(places) <= 1
            labels = tuple(draft.labels[: len(draft.choices)])
            assert question.continuations == (labels if question.labelled else draft.choices)
            assert len(set(question.continuations)) == len(draft.choices)
        if question.labelled:
            assert question.prompt.endswith(f"\n{_listed(draft)}{CUE[item.lang]}")
    if chain.name in NONE:
        assert all(len({*range(len(item.choices))} - {*draft.origin}) == 1 for draft in drafts)
    if chain.name == "none_of_the_others":
        assert item.answer not in drafts[0].origin
        assert drafts[0].gold == len(drafts[0].origin) - 1


def _check_statement(item: Item, draft: Draft, question: Question, rights: set[int]) -> None:
    """Yes or no, whether an option is right, or wrong."""
    [about] = [origin for origin in draft.origin if origin >= 0]
    assert draft.choices == YES_NO[item.lang]
    assert (draft.origin[draft.gold] == about) == (about in rights)
    assert item.choices[about] in question.prompt
    asked_wrong = any(words in draft.question.rpartition("\n")[2] for words in ("wrong", "错"))
    assert asked_wrong == (draft.origin[1] == about)


def _listed(draft: Draft) -> str:
    """Labels before options, as each language writes them."""
    after = {"en": ". "}.get(draft.lang, "." if draft.labels[0].isascii() else "、")
    after = " " if draft.labels[0] == "★" else after
    return " ".join(f"{label}{after}{choice}" for label, choice in zip(draft.labels, draft.choices, strict=False))


# Guessers that see no question: by the place, or the length, of an option.
GUESSERS = ("place 0", "place 1", "place 2", "place 3", "longest", "shortest", "middle")


def guessed(drafts: Iterable[Draft]) -> dict[str, float]:
    """The share that each guesser has right; of equally long options it takes each as often."""
    return _shares(_guesses(draft.choices, draft.gold) for draft in drafts)


def guessed_as_published(items: Iterable[Item]) -> dict[str, float]:
    """The same of items that are asked as they are."""
    return _shares(_of_item(item.choices, item.answer) for item in items)


def _shares(found: Iterable[dict[str, float]]) -> dict[str, float]:
    right, n = dict.fromkeys(GUESSERS, 0.0), 0
    for guesses in found:
        n += 1
        for guesser, credit in guesses.items():
            right[guesser] += credit
    return {guesser: credit / n for guesser, credit in right.items()}


def _guesses(choices: Sequence[str], gold: int) -> dict[str, float]:
    """The guessers that are right, each by its share."""
    sizes = [len(choice) for choice in choices]
    size, mean = sizes[gold], sum(sizes) / len(sizes)
    found = {GUESSERS[gold]: 1.0} if gold < 4 else {}
    if size == max(sizes):
        found["longest"] = 1 / sizes.count(size)
    if size == min(sizes):
        found["shortest"] = 1 / sizes.count(size)
    far = [abs(one - mean) for one in sizes]
    if far[gold] == min(far):
        found["middle"] = 1 / far.count(far[gold])
    return found


_of_item = cache(_guesses)  # every variant is held against the same items


def noise(drafts: Sequence[Draft]) -> float:
    """Four standard errors of a share of about a quarter."""
    return 4 * math.sqrt(0.25 * 0.75 / len({draft.item.id for draft in drafts}))


def chance(drafts: Sequence[Draft]) -> float:
    """The share of a guess."""
    return sum(1 / len(draft.choices) for draft in drafts) / len(drafts)
