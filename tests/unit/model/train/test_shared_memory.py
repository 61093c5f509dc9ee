"""States in shared memory on their way to the store: the same bytes, none torn, the newest one found again."""

import time
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from argosy.model.train import memory, state
from argosy.model.train.memory import PLACE
from argosy.model.train.state import StateStore
from tests.one_weight import OneWeight


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(PLACE, str(tmp_path / "shm"))
    (tmp_path / "shm").mkdir()
    return tmp_path / "shm"


def _store(out: Path, engine: OneWeight, keep_every: int = 0) -> StateStore:
    return StateStore(SimpleNamespace(resume="", keep_every=keep_every), out, engine)  # type: ignore[arg-type]


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("tensors-*"))}


def test_a_state_is_that_of_its_step_however_late_it_is_written(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, write = Event(), state.publish
    monkeypatch.setattr(state, "publish", lambda *paths: held.wait(60) and write(*paths))
    engine = OneWeight()
    store = _store(tmp_path / "step-a", engine)
    for _ in range(3):
        engine.step()
    store.save(3, {})
    engine.step()  # waits for the copy, and not for the store
    assert not list((tmp_path / "step-a/state").glob("step-*"))
    held.set()
    store.close()
    assert float(state.Parts(tmp_path / "step-a/state/step-00000003")["weight/w"].sum()) == 3 * 100_000
    assert list(shared.iterdir()) == []
    monkeypatch.setenv(PLACE, "")
    other = OneWeight()
    for _ in range(3):
        other.step()
    _store(tmp_path / "step-b", other).save(3, {})
    assert _bytes(tmp_path / "step-a/state/step-00000003") == _bytes(tmp_path / "step-b/state/step-00000003")


def test_who_is_started_again_goes_on_from_memory_where_that_is_newer(tmp_path: Path, shared: Path) -> None:
    engine = OneWeight()
    store = _store(tmp_path / "x", engine)
    for step in range(1, 4):
        engine.step()
        store.save(step, {"note": step}, kept=step == 1)
    store.memory.flush()
    assert [path.name for path in sorted((tmp_path / "x/state").glob("step-*"))] == ["step-00000001"]
    again = OneWeight()
    found: Any = _store(tmp_path / "x", again).load()
    assert (found["step"], found["note"], again.weight[0].item()) == (3, 3, 3.0)
    broken = next(shared.glob("*/step-*/tensors-*"))
    broken.write_bytes(broken.read_bytes()[:-1])
    found = _store(tmp_path / "x", again := OneWeight()).load()
    assert (found["step"], again.weight[0].item()) == (1, 1.0)  # of the store


def test_a_state_brings_back_the_generator_that_masks_a_devices_dropout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a stand-in for the device, whose generator is a number."""
    device = SimpleNamespace(get_rng_state=lambda: torch.tensor([7]), set_rng_state=Mock())
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: SimpleNamespace(type="npu"))
    monkeypatch.setattr(torch, "get_device_module", lambda kind: device)
    monkeypatch.setenv(PLACE, "")
    _store(tmp_path / "x", OneWeight()).save(1, {})
    _store(tmp_path / "x", OneWeight()).load()
    device.set_rng_state.assert_called_once_with(torch.tensor([7]))


def test_a_step_that_is_begun_anew_has_no_memory_of_the_one_before(tmp_path: Path, shared: Path) -> None:
    engine = OneWeight()
    store = _store(tmp_path / "x", engine)
    store.save(5, {}, kept=False)
    store.memory.flush()
    (tmp_path / "x/state/memory").unlink()
    assert _store(tmp_path / "x", engine).load() is None
    assert list(shared.glob("*/step-*")) == []


def test_without_room_training_waits_for_the_store_and_says_so(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 64_000})())
    store = _store(tmp_path / "x", OneWeight())
    store.save(1, {})
    store.save(2, {}, kept=False)  # nowhere
    store.save(3, {})
    assert [path.name for path in sorted((tmp_path / "x/state").glob("step-*"))] == ["step-00000001", "step-00000003"]
    assert capsys.readouterr().out.count("shared memory has 0.0 GB free and a state takes 0.0") == 1


@pytest.mark.parametrize("through_memory", [True, False])
def test_states_of_keep_every_stay_for_when_the_newest_are_damaged(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *,
    through_memory: bool) -> None:
    """The first state at or after each multiple does: with `engine=local`, one can be written after a round alone."""
    monkeypatch.setenv(PLACE, str(shared) if through_memory else "")
    store = _store(tmp_path / "x", engine := OneWeight(), keep_every=10)
    for step in range(1, 38):
        engine.step()
        if step % 3 == 0 or step == 10:
            store.save(step, {})
    store.close()
    assert [int(path.name[5:]) for path in sorted((tmp_path / "x/state").glob("step-*"))] == [10, 21, 30, 33, 36]
    for step in (30, 33, 36):
        broken = next((tmp_path / f"x/state/step-{step:08d}").glob("tensors-*"))
        broken.write_bytes(b"x" + broken.read_bytes()[1:])
    again = _store(tmp_path / "x", engine := OneWeight(), keep_every=10)
    assert again.newest(35) == 21  # to go back to; what is damaged is named
    found: Any = again.load()
    assert (found["step"], engine.weight[0].item()) == (21, 21.0)
    assert capsys.readouterr().out.count("is damaged (it has not the bytes that were written)") == 3


def test_a_state_that_cannot_be_written_is_an_error_of_the_next_save(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state, "publish", full)
    store = _store(tmp_path / "x", OneWeight())
    store.save(1, {})
    with pytest.raises(OSError, match="No space left"):
        store.save(2, {})


def test_the_optimizer_waits_for_the_copy_and_says_how_long(tmp_path: Path, shared: Path) -> None:
    engine = OneWeight()
    store = _store(tmp_path / "x", engine)
    store.memory.start(shared / ".step-00000001.x.tmp", [lambda: time.sleep(0.2)], lambda: None)
    engine.step()
    assert store.memory.waited > 0.1
