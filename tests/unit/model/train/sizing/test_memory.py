"""Memory of a step: the paper's table of ZeRO, and what tensors a step really holds."""

import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.attention.varlen
import yaml
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig

from argosy.corpus.tokens.mixture import Batch
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.engines import base, make_engine
from argosy.model.train.layers import attention, experts, loss
from argosy.model.train.parallelism import Group
from argosy.model.train.phase import build_model
from argosy.model.train.sizing.activations import stored_bytes
from argosy.model.train.sizing.architecture import of_pipeline, read_architecture
from argosy.model.train.sizing.job import Job, Layout, read_job, read_layout
from argosy.model.train.sizing.memory import memory, states
from argosy.model.weights import unfilled
from argosy.model.weights.drawn import bare

GPT = read_architecture({"model_type": "gpt_neox", "hidden_size": 512, "intermediate_size": 2048, "vocab_size": 1000,
                         "num_hidden_layers": 8, "num_attention_heads": 8, "hidden_dropout": 0.1,
                         "attention_dropout": 0.1, "use_parallel_residual": False})  # fmt: skip


@pytest.mark.parametrize("zero", range(4))
def test_zero_divides_states_as_its_paper_says(zero: int) -> None:
    """Figure 1 of the paper, of float32 weights, gradients and Adam's two moments."""
    found = states(Job(GPT, 128, 64), Layout(16, zero=zero, engine="fsdp"))
    divided = [each / (16 if zero >= stage else 1) for stage, each in ((3, 4), (2, 4), (1, 8))]
    assert sum(found.values()) == pytest.approx(GPT.parameters() * sum(divided))
    halved = states(Job(GPT, 128, 64), Layout(16, zero=3, gathered=2))  # with DeepSpeed's float32 weights beside
    assert sum(halved.values()) == pytest.approx(GPT.parameters() * (2 + 4 + 4 + 8) / 16)


def test_optimizers_keep_what_they_keep() -> None:
    def kept(optimizer: str) -> float:
        return states(Job(GPT, 128, 64, optimizer=optimizer), Layout())["optimizer"] / GPT.parameters()

    assert kept("adamw") == 8
    assert kept("adamw_8bit") == pytest.approx(2.03, abs=0.02)
    assert kept("adafactor") < 0.1
    assert 2 < kept("galore") < 3  # a quarter of the moments, and projectors; the embedding's moments are whole
    assert 4 < kept("muon") < 8
    assert kept("adamw_bf16") == 6  # with Kahan's


def test_the_first_stage_of_a_pipeline_holds_as_many_samples_as_there_are_stages() -> None:
    job = Job(GPT, 256, 64, 1, attention="plain", document_mask=False)
    assert stored_bytes(job, Layout(4, pipeline=4)) == pytest.approx(stored_bytes(job, Layout()))
    assert stored_bytes(job, Layout(recompute="full")) == GPT.layers * 4 * GPT.hidden_size


@pytest.fixture
def _one_thread() -> Iterator[None]:
    """Small products gain nothing from several threads, which wait for each other where tests run side by side."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


RESIZE = torch.UntypedStorage.resize_


class Live(TorchDispatchMode):
    """The bytes of all tensors that are alive, and the most that were: what an allocator without gaps would need."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._sizes: dict[int, int] = {}

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._sizes:
            self._sizes[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        self.now -= self._sizes.pop(key)

    def resize(self, storage: torch.UntypedStorage, size: int) -> Any:
        """Stands for the method, by which FSDP2 frees and refills what it gathers."""
        if (key := storage._cdata) in self._sizes:
            self.now += size - self._sizes[key]
            self._sizes[key] = size
            self.most = max(self.most, self.now)
        return RESIZE(storage, size)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:
            return NotImplemented
        unread = torch.ops.aten._local_scalar_dense.default, torch.ops.aten.bincount.default
        if func in unread and any(isinstance(each, FakeTensor) for each in args):
            return True if func is torch.ops.aten._local_scalar_dense.default else torch.empty(1)  # no numbers to read
        out = func(*args, **(kwargs or {}))
        for each in tree_leaves(out):
            if isinstance(each, torch.Tensor) and (isinstance(each, FakeTensor) or not each.is_meta):
                self.add(each)
        return out


RUNS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("case", RUNS["small"].values(), ids=RUNS["small"])
def test_the_peak_is_within_a_tenth_of_what_a_step_holds(case: dict[str, Any]) -> None:
    small = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 4, "num_key_value_heads": 2,
             "max_position_embeddings": 512}
    architecture = ModelConfig.model_validate({**small, **case.get("model", {})})
    config = TrainConfig.model_validate({"dtype": "float32", "global_batch_size": 8, **case.get("train", {})})
    vocab = case.get("vocab", 512)
    job = read_job(config.model_dump(), of_pipeline(architecture.model_dump(), vocab), on_cpu=True)
    layout = read_layout(config.model_dump(), 1, on_cpu=True)
    predicted = memory(job, layout, context=0)
    assert predicted.total == pytest.approx(measured(vocab, architecture, config), rel=0.1)


def measured(vocab: int, architecture: ModelConfig, config: TrainConfig) -> int:
    """The most bytes of tensors in the second step, whose optimizer has its state already."""
    model = build_model(architecture, vocab, {}).train()
    engine = make_engine(model, 1, config, Group())
    ids = np.random.default_rng(0).integers(0, vocab, (config.global_batch_size, config.sequence_length))
    batch = Batch(ids, ids, np.zeros_like(ids), np.zeros_like(ids))
    live = Live()
    for tensor in (*model.parameters(), *model.buffers()):
        live.add(tensor)
    with live:
        for _ in range(2):
            live.most = 0
            engine.train_step(batch, 1e-3)
    return live.most


@pytest.mark.parametrize("case", RUNS["divided"])
def test_the_peak_of_a_divided_model_is_within_a_tenth_of_what_one_of_its_processes_holds(
        case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process of a fake group, on tensors without memory, by the kernels of a GPU."""
    fields = dict(RUNS["divided"][case])
    shapes = dict(RUNS["wide"][fields.pop("name")])
    world = shapes.pop("gpus")
    blocks = 4 if "pipeline" in case else 3
    shapes = {**shapes, "num_hidden_layers": blocks, "head_dim": 128, "tie_word_embeddings": False}
    config = TrainConfig.model_validate({"processes": world, "document_mask": False, "micro_batch_size": 1,
                                         "sequence_length": 4096, "global_batch_size": 2 * world, **fields})
    world = config.processes
    predicted = memory(read_job(config.model_dump(), read_architecture(shapes)),
                       read_layout(config.model_dump(), world), context=0)
    live, fake, model = Live(), FakeTensorMode(allow_non_fake_inputs=True), bare(AutoConfig.for_model(**shapes)).train()
    for module in model.modules():
        module._buffers.update({key: torch.empty(each.shape) for key, each in module._buffers.items()})
    monkeypatch.setattr(unfilled, "_RECORD", "numbers")
    model.numbers = SimpleNamespace(read=lambda key, start, shape: torch.empty(shape), check=lambda *_: None)
    monkeypatch.setattr(attention, "has_kernel", lambda *_: True)
    monkeypatch.setattr(experts, "_product", lambda rows, weights, ends: torch._grouped_mm(
        rows.bfloat16(), weights.bfloat16().mT, offs=ends.int()))
    monkeypatch.setattr(experts, "_elsewhere", sent_evenly)
    monkeypatch.setattr(loss, "_CACHED", 2**50)
    monkeypatch.setattr(torch.utils, "swap_tensors", lambda *_: None)
    monkeypatch.setattr(torch.UntypedStorage, "resize_", lambda *given: live.resize(*given))
    give = base.give_memory

    def given(*args: Any) -> None:
        with fake, live:
            give(*args)

    monkeypatch.setattr(base, "give_memory", given)
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())  # type: ignore[no-untyped-call]
    engine = make_engine(model, 1, config, Group(0, world))
    ids = np.zeros((config.global_batch_size // config.sample_groups, 4096), np.int64)
    with fake, live:
        for _ in range(2):
            live.most = 0
            engine.train_step(Batch(ids, ids, ids, ids), 1e-3)
    dist.destroy_process_group()
    assert predicted.total == pytest.approx(live.most, rel=0.1)


def sent_evenly(module: Any, rows: torch.Tensor, _: torch.Tensor, group: Any) -> torch.Tensor:
    """What processes that share experts compute, where each expert is sent as many tokens."""
    rows = experts.exchange(rows.bfloat16(), group)
    order, ends = torch.zeros(len(rows), dtype=torch.int64), torch.zeros(len(module.gate_up_proj), dtype=torch.int64)
    return experts.exchange(experts._feed_forward(module, rows[order], ends)[order.argsort()], group)
