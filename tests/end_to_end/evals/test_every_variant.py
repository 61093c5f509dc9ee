"""What every variant promises, on every item of MMLU, GAOKAO (zh, several right options) and OpenBookQA."""

import pytest

from evals.chain import Chain
from evals.items import Item
from evals.question import Draft
from tests.variant_properties import CHAIN, CHAINS, benchmark, chance, check, guessed, guessed_as_published, made, noise

BENCHMARKS = ("mmlu", "gaokao", "openbookqa")
EVERY = [chain for chain in CHAIN if chain.name not in ("all_orders", "few_shot")]
# What is a third of GAOKAO at least, and of others: the rest asks for what is not so, the best, any true statement.
SOME = {"other_distractors": 0.2, "cloze": 0.3}


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.parametrize("chain", EVERY, ids=lambda chain: chain.name)
def test_every_variant_on_every_item(chain: Chain, name: str) -> None:
    found = made(chain, benchmark(name), SOME.get(chain.name, 0.55))
    drafts = []
    for item, of_item, questions in found:
        check(chain, item, of_item, questions)
        if chain.name == "permuted":
            _orders(item, of_item)
        drafts += of_item
    _leaks_nothing(chain.name, [item for item, _, _ in found], [draft for draft in drafts if not draft.calibration])


def _orders(item: Item, drafts: list[Draft]) -> None:
    """Inverted, each order gives the item; none is the published one; right options are at each place equally often."""
    n = len(item.choices)
    for draft in drafts:
        inverse = sorted(range(n), key=lambda place: draft.origin[place])
        assert tuple(draft.choices[place] for place in inverse) == item.choices
        assert draft.origin != tuple(range(n))
    assert len({draft.origin for draft in drafts}) == len(drafts)
    assert n != 4 or sorted(draft.gold for draft in drafts) == [0, 1, 2, 3]


def _leaks_nothing(name: str, items: list[Item], drafts: list[Draft]) -> None:
    """Who sees no question is right no more often than in the published form, or than chance where that is less."""
    if name in ("none_of_the_others", "none_control"):
        drafts = [draft for draft in drafts if len(draft.choices) == 4]
        always = sum(draft.origin[draft.gold] == -1 for draft in drafts) / len(drafts)
        assert always == (name == "none_of_the_others")  # read together: what one gives the other takes
        return
    drafts = [draft for draft in drafts if not draft.golds and len(draft.choices) in (2, 4)]
    one_right = [item for item in items if len(item.choices) == 4 and len(item.answers) < 2]
    before, by_chance = guessed_as_published(one_right), chance(drafts)
    for guesser, right in guessed(drafts).items():
        assert right <= max(before[guesser], by_chance) + noise(drafts), guesser
        if guesser.startswith("place") and name == "permuted":
            assert right == by_chance == 0.25
        if name == "other_distractors" and not guesser.startswith("place"):
            assert abs(right - by_chance) <= noise(drafts), guesser
    if name in ("wicked", "none_either"):
        always = sum(draft.origin[draft.gold] == -1 for draft in drafts) / len(drafts)
        assert abs(always - chance(drafts)) <= noise(drafts)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_examples_are_others_in_the_same_form_and_balanced(name: str) -> None:
    chain = next(chain for chain in CHAIN if chain.name == "few_shot")
    shots = CHAINS["few_shot"]["few_shot"]["n"]  # type: ignore[index]
    last: tuple[str, list[str]] = ("", [])
    for item, [draft], [question] in made(chain, benchmark(name), 0.9):
        asked = draft.render(None).prompt
        assert question.prompt.endswith(asked)
        head = question.prompt.removesuffix(asked)
        assert asked not in head
        if head != last[0]:
            cue = draft.cue + draft.separator
            answers = [part[0] for part in head.split(cue)[1:] if part[1:3] == "\n\n"]
            last = head, answers
        assert len(last[1]) == shots
        assert len(set(last[1])) == shots or len(item.choices) != 4 or item.subject == "English_Cloze_Test"
