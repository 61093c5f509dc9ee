"""What every variant promises, on up to 500 items of each multiple-choice source, shipped or beside the checkout."""

import pytest

from evals.chain import Chain
from evals.extract.listed import stand_in_order
from tests.variant_properties import CHAIN, GUESSERS, MADE, PUBLISHED, check, guessed, made, source

PLAIN = next(chain for chain in CHAIN if chain.name == "plain")
EVERY = [chain for chain in CHAIN if chain.name != "all_orders"]
LISTED = ("mmlu", "gaokao", "openbookqa", "listed", "bullets", "unknown")
DROPS = ("none_of_the_others", "none_control", "none_either", "wicked", "other_distractors")
# All of them ask the same whatever the option's place: these metrics tell it of no guesser by place.
BY_PLACE = ("place 0", "place 1", "last")
ALONE = ("acc_all", "consistency")  # one who prefers a text is consistent; they tell it of guesses that are drawn


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("chain", EVERY, ids=lambda chain: chain.name)
def test_every_variant_on_every_item(chain: Chain, name: str) -> None:
    for item, drafts, questions in made(chain, source(name), 0.02):
        check(chain, item, drafts, questions)


@pytest.mark.parametrize("name", [*MADE, *PUBLISHED])
@pytest.mark.parametrize("chain", [each for each in CHAIN if each.name in (*DROPS, "cloze")], ids=lambda c: c.name)
def test_nothing_that_a_variant_removes_stands_in_the_prompt(chain: Chain, name: str) -> None:
    found = made(chain, source(name), 0)
    for item, drafts, questions in found:
        for draft, question in zip(drafts, questions, strict=True):
            assert not stand_in_order(draft.question, item.choices) or chain.name == "cloze"
            for at in set(range(len(item.choices))) - {*draft.origin}:
                assert f"){item.choices[at]}" not in question.prompt
    assert found or name in ("blimp", "winogrande", "truthfulqa", "mathqa", "social_i_qa")


@pytest.mark.parametrize("name", [*MADE, *PUBLISHED])
@pytest.mark.parametrize("chain", [each for each in CHAIN if each.name in ("plain", "permuted", "pride", "wicked",
                                   "none_either", "other_distractors")], ids=lambda each: each.name)  # fmt: skip
def test_who_sees_no_question_is_at_the_stated_chance(chain: Chain, name: str) -> None:
    """Within noise for places and draws; by length no better than in the published form."""
    found = made(chain, source(name), 0)
    if len(found) < 100:
        pytest.skip(f"{len(found)} items of {name} can be asked so")
    asked = {item.id for item, _, _ in found}
    published = [each for each in made(PLAIN, source(name), 0) if each[0].id in asked]
    for guesser in GUESSERS:
        before = guessed(guesser, published)["acc"][0]
        for metric, (value, chance, noise) in guessed(guesser, found).items():
            if metric in ALONE and guesser in BY_PLACE:
                assert value <= chance + noise, (guesser, metric)  # the right option is at each place in turn
            elif metric in ALONE:
                assert guesser != "at random" or abs(value - chance) <= noise, (guesser, metric)
            elif guesser in (*BY_PLACE, "at random") and (metric != "acc" or chain.name == "permuted"):
                assert abs(value - chance) <= noise, (guesser, metric)
            else:
                assert value <= max(before, chance) + noise, (guesser, metric)
