"""Training with states on NVMe, on a stand-in for DeepSpeed's reads and writes, which takes minutes to compile."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from argosy.model.train.engines.zero import own_folder
from argosy.model.train.sizing.deepspeed import locked
from tests.training_fixtures import TINY_MODEL, change_settings, random_batch, tiny_engine
from tests.warm import SERVER

GROUP = 4_000  # numbers of the optimizer's groups


class Files:
    """DeepSpeed's `aio_handle`, at once and on ordinary files."""

    buffers: ClassVar[dict[int, int]] = {}
    """Bytes that are locked, by address."""
    most: ClassVar[int] = 0

    def __init__(self, **_: Any) -> None:
        self._pending = 0

    def new_cpu_locked_tensor(self, count: int, like: Any) -> Any:
        made = like.new_empty(count)
        self.buffers[made.data_ptr()] = made.nbytes
        Files.most = max(self.most, sum(self.buffers.values()))
        return made

    def free_cpu_locked_tensor(self, tensor: Any) -> None:
        self.buffers.pop(tensor.data_ptr())

    def is_pinned(self, tensor: Any) -> bool:
        return tensor.untyped_storage().data_ptr() in self.buffers

    def async_pwrite(self, tensor: Any, path: str, _: int) -> int:
        Path(path).write_bytes(tensor.numpy().tobytes())
        self._pending += 1
        return 0

    def async_pread(self, tensor: Any, path: str, _: int) -> int:
        import torch

        tensor.copy_(torch.frombuffer(bytearray(Path(path).read_bytes()), dtype=tensor.dtype))
        self._pending += 1
        return 0

    def wait(self) -> int:
        done, self._pending = self._pending, 0
        return done


def _prepare() -> None:
    """Have DeepSpeed keep every weight of 1 KB and more on the disk, and its optimizer in groups of few numbers."""
    from deepspeed.ops.op_builder import AsyncIOBuilder
    from deepspeed.runtime.swap_tensor import optimizer_utils, partitioned_param_swapper

    def small(made: dict[str, Any]) -> None:
        made["aio"] = {"block_size": 1024}
        made["zero_optimization"] |= {"sub_group_size": GROUP, "stage3_param_persistence_threshold": 250}
        made["zero_optimization"].get("offload_param", {})["max_in_cpu"] = 0

    AsyncIOBuilder.load = lambda self, verbose=True: SimpleNamespace(aio_handle=Files)
    optimizer_utils.MIN_AIO_BYTES = partitioned_param_swapper.MIN_AIO_BYTES = 1024
    change_settings(small)


def _losses(engine: Any, steps: range) -> list[float]:
    return [float(engine.train_step(random_batch(step), 1e-2)[0].sum()) for step in steps]


def _train(out: Path, offload: str, frozen: tuple[str, ...]) -> None:
    """Train four steps at once, and on NVMe with a state in their middle. Raises AssertionError: they differ."""
    import torch

    whole = tiny_engine(frozen=frozen, max_grad_norm=0.5)
    expected = _losses(whole, range(4))
    _prepare()
    engine = {"name": "zero", "stage": 3, "offload": offload, "nvme_path": str(out / "disk")}
    before, after = (tiny_engine(frozen=frozen, max_grad_norm=0.5, engine=engine) for _ in range(2))
    found = _losses(before, range(2))
    (out / "state").mkdir()
    before.save(out / "state")
    after.load(out / "state")
    found += _losses(after, range(2, 4))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    for (name, one), (_, other) in zip(whole.weights(), after.weights(), strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=1e-6, msg=name)  # of 4 updates by 0.01
    (out / "locked").write_text(str(Files.most))


@pytest.mark.parametrize(("offload", "frozen", "trained"), [
    ("optimizer", (), 10_848), ("all", (), 10_848), ("all", ("mlp", "embed_tokens"), 4_192)])
def test_states_on_nvme_are_those_of_memory_and_go_on(offload: str, frozen: tuple[str, ...], trained: int,
                                                     tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = SERVER.Process(target=_train, args=(tmp_path, offload, frozen))
    process.start()
    process.join()
    assert process.exitcode == 0
    sizes = [sum(each.stat().st_size for each in path.rglob("*.swp")) for path in _folders(tmp_path / "disk")]
    all_ = 16 * trained + (4 * 10_848 if offload == "all" else 0)
    assert [size / all_ for size in sizes] == pytest.approx([1, 1], rel=0.02)  # each engine has a folder of its own
    monkeypatch.setattr("argosy.model.train.sizing.deepspeed.GROUP", GROUP)
    most = locked(64 * TINY_MODEL["hidden_size"], trained, weights=offload == "all")
    assert 0.7 < int((tmp_path / "locked").read_text()) / (2 * most) <= 1  # what is refused where it cannot be
    last = own_folder(str(tmp_path / "disk"))  # of a process that has ended, nothing stays
    assert _folders(tmp_path / "disk") == [Path(last)]


def _folders(disk: Path) -> list[Path]:
    return [path for path in disk.iterdir() if path.is_dir()]
