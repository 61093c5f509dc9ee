"""Rounds of the check: pairs, suspects, and who is convicted."""

from itertools import combinations

import pytest

from argosy.core.nodes.rounds import ROUNDS, Group, Reading, Round, first_groups, next_groups, verdicts


def _judge(world: int, slow: set[int], cut: set[int], wrong: set[int]) -> tuple[dict[int, str], dict[int, str], int]:
    """Run rounds over a model of machines: those that are slow, cut off, or wrong."""
    rounds: list[Round] = []
    groups: tuple[Group, ...] = first_groups(range(world))
    while groups:
        readings = {rank: Reading(f"n{rank}", 9.0 if rank in slow else 1.0, rank not in wrong,
                                  None if cut & set(group) else 0.1, "timed out")
                    for group in groups for rank in group}  # fmt: skip
        rounds.append(Round(groups, readings))
        groups = next_groups(rounds)
    return *verdicts(rounds), len(rounds)


@pytest.mark.parametrize("world", [2, 3, 6, 7, 16])
def test_all_good_is_one_round(world: int) -> None:
    assert _judge(world, set(), set(), set()) == ({}, {}, 1)


@pytest.mark.parametrize("kind", ["slow", "cut", "wrong"])
def test_each_bad_one_of_six_and_each_two_of_eight_are_found_and_no_other(kind: str) -> None:
    for world, number in ((6, 1), (7, 1), (8, 2)):
        for planted in combinations(range(world), number):
            sets = {name: set(planted) if name == kind else set() for name in ("slow", "cut", "wrong")}
            bad, suspects, rounds = _judge(world, **sets)
            assert (set(bad), suspects) == (set(planted), {})
            assert rounds <= ROUNDS


def test_two_that_do_not_reach_each_other_cannot_be_told_apart() -> None:
    bad, suspects, _ = _judge(2, set(), {1}, set())
    assert (bad, set(suspects)) == ({}, {0, 1})


def test_pairs_are_neighbours_and_three_where_one_is_left() -> None:
    assert first_groups([0, 1, 3, 4, 7]) == ((0, 1), (3, 4, 7))
    assert first_groups([5]) == ((5,),)
