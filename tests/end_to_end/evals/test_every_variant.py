"""What every variant promises: on generated items, and on up to 300 of each multiple-choice source that is there."""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random

import pytest
import yaml

from evals.answers import Answer, answer, generated
from evals.chain import Chain, parse_chain
from evals.extract import RULES
from evals.formats import At, find_format, parse_records, read_items
from evals.items import Item, merged
from evals.metrics import metrics
from evals.question import CUE, Draft, Pool, Question
from evals.variants import NotApplicable
from evals.variants.single_answers import YES_NO
from tests.evaluation_fixtures import make_items
from tests.shared_data import shared

TEMPLATE = {"prompt": {"en": "{options}\nGiven these, {question}\nRight is", "zh": "{options}\n{question}选"},
            "option": "({label}) {text}", "answer": "({label})"}  # fmt: skip
CHAINS: dict[str, object] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
CHAIN = [parse_chain(name, spec) for name, spec in CHAINS.items()]
NONE = ("none_of_the_others", "none_control", "none_either", "woven_none", "wicked", "none_own", "text_none",
        "template_none")
OWN_FORMS = ("text_numerals", "template", "template_none", "template_each", "template_written", "text_written")
NEW_FORMS = (*OWN_FORMS, "options_as_text", "text_none", "none_own")
Made = list[tuple[Item, list[Draft], list[Question]]]


AGIEVAL = {"en": "Q: {} Answer Choices: {}\nA: Among A through D, the answer is",
           "zh": "问题：{} 选项：{}\n答案：从A到D, 我们应选择"}  # fmt: skip


def _written(kind: str) -> Iterator[dict[str, object]]:
    """Records as BIG-bench's (the right option first), AGIEval's (options in the question, with their labels), BBH's (a
    list without labels), BBQ's (one option is a wording of "unknown"), and generated ones of 2 to 6 options."""
    if kind == "generated":
        found = [item for n, (count, size) in enumerate(((120, 4), (40, 3), (24, 2), (24, 6)))
                 for item in make_items(count, seed=n, options=size)]
        yield from ({"id": str(n), "lang": i.lang, "question": i.question, "choices": i.choices, "answer": i.answer}
                    for n, i in enumerate(found))
        return
    unknown = ["Not known", "Can't answer", "Undetermined", "Not enough info", "Cannot be determined"]
    for n, item in enumerate(make_items(1000)):
        texts = [item.choices[item.answer], *(each for at, each in enumerate(item.choices) if at != item.answer)]
        texts, answer = (texts, 0) if kind == "right_first" else ([*item.choices], item.answer)
        question = item.question
        if kind == "listed":
            texts = [f"({label}){text}" for label, text in zip("ABCD", texts, strict=True)]
            question = AGIEVAL[item.lang].format(question, " ".join(texts))
        if kind == "bullets":
            question = f"{question}\nOptions:\n" + "\n".join(f"- {text}" for text in texts)
        if kind == "unknown":
            texts[(answer + 1 + n % 3) % 4] = unknown[n % 5]
        yield {"id": str(n), "lang": item.lang, "question": question, "choices": texts, "answer": answer}


PUBLISHED = {"mmlu": ("mmlu/*test*.csv", ""), "gaokao": ("gaokao_bench/*Objective_Q*.json", "gaokao"),
             "truthfulqa": ("truthfulqa/*TruthfulQA.csv", "truthfulqa_mc1"), "blimp": ("blimp/*.jsonl", "blimp"),
             **{name: (f"commonsense_mc/*{name}*test*.json", "instructions") for name in ("openbookqa", "mathqa")}}
MADE = ("right_first", "listed", "bullets", "unknown")


@cache
def source(name: str) -> list[Item]:
    """At most 300 items of what the shared data has, or of records in other benchmarks' forms."""
    if name in (*MADE, "generated"):
        found = parse_records(_written(name), find_format("argosy"), At(name)).items
    else:
        pattern, form = PUBLISHED[name]
        folder, _, names = pattern.partition("/")
        files = [path for path in sorted(shared(folder).glob(names)) if "Subjective" not in path.name]
        found = merged([read_items(path, format=form) for path in files]).items
    items = [item for item in found if isinstance(item, Item)]
    return Random(name).sample(items, min(300, len(items)))


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
    assert len(all_made) >= len(found) * at_least
    return all_made


def _rendered(drafts: list[Draft]) -> list[Question]:
    return [draft.render(n if len(drafts) > 1 else None) for n, draft in enumerate(drafts)]


def check(chain: Chain, item: Item, drafts: Sequence[Draft], questions: Sequence[Question]) -> None:
    """One right option in each question, each option stands for what `origin` says, and each is in the prompt."""
    rights = set(item.answers or (item.answer,))
    for draft, question in zip(drafts, questions, strict=True):
        assert (question.item, question.origin) == (item.id, draft.origin)
        assert len(set(draft.origin)) == len(draft.origin) == len(draft.choices) == len(set(draft.choices))
        if chain.name == "statements":
            _check_statement(item, draft, question, rights)
            continue
        places = [place for place, origin in enumerate(draft.origin) if origin in rights]
        assert places == list(draft.rights) if places else draft.origin[draft.gold] == -1
        assert (-1 in draft.origin) == (chain.name in NONE)
        for origin, text in zip(draft.origin, draft.choices, strict=True):
            assert text == item.choices[origin] if origin >= 0 else text not in item.choices
        if chain.name in OWN_FORMS:
            _check_own(draft, question)
        elif question.generation:
            assert question.generation.answer == "".join(draft.labels[place] for place in draft.rights)
            assert question.continuations == ()
        else:
            assert len(places) <= 1
            labels = tuple(draft.labels[: len(draft.choices)])
            assert question.continuations == (labels if question.labelled else draft.choices)
            assert len(set(question.continuations)) == len(draft.choices)
        if question.labelled and chain.name not in (*OWN_FORMS, "chain_of_thought"):
            assert question.prompt.endswith(f"\n{_listed(draft)}{CUE[item.lang]}")
    if chain.name == "statements":  # yes is half of the answers
        assert abs(2 * sum(question.gold == 0 for question in questions) - len(questions)) <= 1
        assert {question.chance for question in questions} == {0.5}
    if chain.name in NONE:
        assert all(len({*range(len(item.choices))} - {*draft.origin}) == 1 for draft in drafts)
    if chain.name == "none_of_the_others":
        assert item.answer not in drafts[0].origin
        assert drafts[0].gold == len(drafts[0].origin) - 1


def _check_own(draft: Draft, question: Question) -> None:
    """Each option stands in the prompt (one in each, where there are several); it is asked for by label or text."""
    asked = [*question.prompts] or [question.prompt] * len(draft.choices)
    for prompt, label, choice in zip(asked, draft.labels, draft.choices, strict=False):
        assert choice in prompt
        assert not question.labelled or label in prompt
    if question.generation is None:
        wanted = {f"({label})" for label in draft.labels} | {*draft.labels, "Yes"} | {*draft.choices}
        assert {*question.continuations} <= wanted
    elif not question.generation.among:
        assert question.generation.answer == "".join(draft.labels[place] for place in draft.rights)


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


# Guessers that see no question: by the place, or the length, of an option; "none" takes an option that was added.
GUESSERS = ("place 0", "place 1", "last", "longest", "shortest", "none", "at random")


def guess(guesser: str, draft: Draft, question: Question, rng: Random) -> Answer:
    """The answer of a guesser; of equally good options any."""
    n, sizes = len(draft.choices), [len(text) for text in draft.choices]
    best = {"place 0": [0], "place 1": [1], "last": [n - 1], "at random": [*range(n)],
            "longest": [at for at in range(n) if sizes[at] == max(sizes)],
            "shortest": [at for at in range(n) if sizes[at] == min(sizes)],
            "none": [at for at in range(n) if draft.origin[at] == -1] or [*range(n)]}[guesser]  # fmt: skip
    chosen = rng.choice(best)
    if question.generation:
        drawn = [at for at in range(n) if rng.random() < 0.5] if draft.golds and guesser == "at random" else [chosen]
        while not drawn:  # a set that is not empty
            drawn = [at for at in range(n) if rng.random() < 0.5]
        text = "".join((draft.labels if question.labelled else draft.choices)[at] for at in drawn)
        return generated(question, RULES.pick(question.generation.extract).closing(text, draft.lang))
    found = answer(question, [-4.0 * (at != chosen) for at in range(n)])
    assert found is not None
    return found


def guessed(guesser: str, found: Made) -> tuple[float, float, float]:
    """Accuracy of a guesser, the chance, and four standard errors."""
    rng = Random(guesser)
    values = metrics([guess(guesser, draft, question, rng) for _, drafts, questions in found
                      for draft, question in zip(drafts, questions, strict=True)])
    chance = values["chance"].value
    return values["acc"].value, chance, 4 * math.sqrt(max(chance * (1 - chance), 1e-4) / len(found))


@cache
def plain(name: str) -> Made:
    """The source in its published form."""
    return made(next(chain for chain in CHAIN if chain.name == "plain"), source(name), 0)


EVERY = [chain for chain in CHAIN if chain.name != "all_orders"]
LISTED = ("mmlu", "gaokao", "openbookqa", *MADE[1:])
NOT_DRAWN = ("plain", "cloze", "options_in_text", "none_of_the_others", "numerals", "stems", "digits", "symbols",
             "all_orders", "one_right", "generative", "chain_of_thought", "options_as_text", "text_numerals",
             "text_written", "template", "template_each")
NO_QUESTION = ("plain", "permuted", "pride", "wicked", "none_either", "other_distractors", "statements", "generative",
               "chain_of_thought", *NEW_FORMS)


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("chain", EVERY, ids=lambda chain: chain.name)
def test_every_variant_on_every_item(chain: Chain, name: str) -> None:
    for item, drafts, questions in made(chain, source(name), 0.02):
        check(chain, item, drafts, questions)


@pytest.mark.parametrize("chain", CHAIN, ids=lambda chain: chain.name)
def test_every_variant_on_generated_items_is_the_seeds(chain: Chain) -> None:
    """The same seed gives the same questions in whatever order, another seed others where something is drawn."""
    for item, drafts, questions in made(chain, source("generated")):
        check(chain, item, drafts, questions)
    found = make_items(60)
    questions, _ = chain.all_questions(found, 3)
    apart = {question.id: question for question in chain.all_questions(found[::-1], 3)[0]}
    assert all(apart[question.id] == question for question in questions)
    assert (chain.all_questions(found, 4)[0] != questions) == (chain.name not in NOT_DRAWN)


@pytest.mark.parametrize("name", [*MADE, *PUBLISHED])
@pytest.mark.parametrize("chain", [each for each in CHAIN if each.name in NO_QUESTION], ids=lambda each: each.name)
def test_who_sees_no_question_is_at_the_stated_chance(chain: Chain, name: str) -> None:
    """Within noise for draws, and for places where orders are drawn; by length no better than in the published form."""
    found = made(chain, source(name), 0)
    if len(found) < 60:
        pytest.skip(f"{len(found)} items of {name} can be asked so")
    asked = {item.id for item, _, _ in found}
    published = [each for each in plain(name) if each[0].id in asked]
    # Of statements, "none" would read whether the right or the wrong is asked for.
    for guesser in [each for each in GUESSERS if (chain.name, each) != ("statements", "none")]:
        value, chance, noise = guessed(guesser, found)
        if guesser == "at random" or (chain.name == "permuted" and guesser in ("place 0", "place 1", "last")):
            assert abs(value - chance) <= noise, guesser
        else:
            assert value <= max(guessed(guesser, published)[0], chance) + noise, guesser


def test_the_headline_has_what_asks_for_knowledge() -> None:
    asks = {chain.name for chain in CHAIN if chain.knowledge}
    assert {chain.name for chain in CHAIN} - asks == {
        "none_of_the_others", "none_control", "none_either", "wicked", "reading", "woven_none", "none_own",
        "text_none", "template_none", "statements"}
    assert {chain.name for chain in CHAIN if not chain.directed} == {"none_of_the_others", "none_control"}
