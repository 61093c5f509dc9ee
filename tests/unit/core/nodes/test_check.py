"""The look at one machine: what tools print, and limits; and rounds of the check: pairs, suspects, who is convicted."""

from itertools import combinations
from pathlib import Path

import pytest

from argosy.core.errors import InputError
from argosy.core.nodes.check import Place
from argosy.core.nodes.hardware import adapters, gpus, storage_speed
from argosy.core.nodes.rounds import ROUNDS, Group, Reading, Round, first_groups, next_groups, verdicts

SMI = "0, 0, Not Active, Not Active, No, 41\n1, 3, Not Active, Not Active, No, 44\n2, 0, Active, Not Active, No, 88\n"
IBV = "hca_id:\tmlx5_0\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\nhca_id:\tmlx5_1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n"


def _printed(**texts: str) -> object:
    return lambda program, *_: texts.get(program.replace("-", "_"), "")


def test_gpus_with_errors_fail_and_hot_ones_are_told() -> None:
    found = list(gpus(_printed(nvidia_smi=SMI, dmesg="[1] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off")))  # type: ignore[arg-type]
    assert [each.state for each in found] == ["ok", "FAIL", "warn", "warn"]
    assert "3 uncorrected ECC errors" in found[1].what
    assert "heat, at 88" in found[2].what
    assert found[3].what.startswith("Xid 79 of PCI:0000:3b:00")
    assert list(gpus(_printed())) == []  # type: ignore[arg-type]


def test_a_port_that_is_down_fails_and_unequal_rates_are_told() -> None:
    found = list(adapters(_printed(ibv_devinfo=IBV, ibstat="  Rate: 200\n  Rate: 100\n")))  # type: ignore[arg-type]
    assert [(each.state, each.what) for each in found] == [
        ("ok", "mlx5_0: PORT_ACTIVE (4)"), ("FAIL", "mlx5_1: PORT_DOWN (1)"),
        ("warn", "ports have different rates: 200, 100 Gb/s")]  # fmt: skip


def test_a_folder_that_cannot_be_written_fails(tmp_path: Path) -> None:
    assert [each.state for each in storage_speed(tmp_path / "none")] == ["FAIL"]


def test_the_place_is_read_from_the_launcher() -> None:
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "MASTER_ADDR": "n0", "SLURM_LOCALID": "1"}
    assert Place.of_environment(slurm) == Place(3, 4, "n0", 29400, 1)
    assert Place.of_environment({}) == Place(0, 1)
    with pytest.raises(InputError, match="MASTER_ADDR is not set"):
        Place.of_environment({"WORLD_SIZE": "2"})
    with pytest.raises(InputError, match="RANK is 'x'"):
        Place.of_environment({"RANK": "x"})


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
