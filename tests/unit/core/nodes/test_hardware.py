"""The look at one machine: what tools print, and limits."""

from pathlib import Path

import pytest

from argosy.core.errors import InputError
from argosy.core.nodes.check import Place
from argosy.core.nodes.hardware import adapters, gpus, storage_speed

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
