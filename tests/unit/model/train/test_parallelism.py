"""One model over many processes, as one of them sees it, in a world that is not there."""

from collections.abc import Iterator
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from pydantic import ValidationError
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoConfig, AutoModelForCausalLM

from argosy.core.errors import InputError
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.engines.base import Engine
from argosy.model.train.engines.deepspeed import DeepSpeedEngine, _check_biases
from argosy.model.train.engines.zero import check_locked
from argosy.model.train.layers.attention import recurrent
from argosy.model.train.layers.loss import LossModule
from argosy.model.train.parallelism import Group
from argosy.model.train.parallelism.mesh import Mesh, divide_sequence
from argosy.model.train.parallelism.pipeline import Pipeline
from argosy.model.train.parallelism.shares import Shares
from argosy.model.train.sizing.architecture import MIXTURES, of_pipeline
from argosy.model.train.sizing.job import Job, Layout
from argosy.model.train.sizing.memory import parameters_on_gpu
from workflows.lifecycle import LifecycleConfig

SHAPE = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16,
         "num_key_value_heads": 8, "tie_word_embeddings": False}


@pytest.fixture
def processes() -> Iterator[Group]:
    dist.init_process_group("fake", rank=0, world_size=16, store=FakeStore())  # type: ignore[no-untyped-call]
    yield Group(0, 16)
    dist.destroy_process_group()


@pytest.fixture
def world(processes: Group) -> Iterator[Group]:
    with FakeTensorMode():  # shapes alone
        yield processes


def make(kind: str) -> Any:
    return AutoModelForCausalLM.from_config(
        AutoConfig.for_model(**described(kind).shapes, vocab_size=1000, head_dim=32))


def described(kind: str) -> ModelConfig:
    experts = {"count": 8} if kind in MIXTURES else None
    return ModelConfig.model_validate({**SHAPE, "model_type": kind, "experts": experts})


@pytest.mark.parametrize(("kind", "sizes"), [
    *product(("llama", "qwen3", "gpt_neox"), ({"tensor": 4}, {"tensor": 2, "sequence": 2},
                                              {"pipeline": 4, "tensor": 2})),
    ("qwen3_moe", {"expert": 4, "tensor": 2}), ("mixtral", {"expert": 8}), ("mixtral", {"pipeline": 4, "expert": 4})])
def test_a_process_holds_what_the_planner_says(world: Group, kind: str, sizes: dict[str, int]) -> None:
    model, mesh = make(kind), Mesh(world, sizes)
    Shares(model, mesh)
    loss = LossModule(model, 1, torch.float32, 0.0, 64)
    divide_sequence(model, mesh)
    whole = 64 * mesh.sizes["tensor"]
    loss.divide(None, slice(0, whole), slice(0, 64))
    trained: Any = Pipeline(loss, mesh, 1) if "pipeline" in sizes else loss
    job = Job(of_pipeline(described(kind).model_dump(), 1000), 512, 16)
    layout = Layout(16, *(sizes.get(axis, 1) for axis in ("tensor", "pipeline", "expert")),
                    context=sizes.get("sequence", 1))
    held = sum(each.numel() for each in trained.parameters())
    few = 512 + (16 * 512 if kind == "gpt_neox" else 0)  # the last norm; biases of what is summed are whole
    assert held == pytest.approx(parameters_on_gpu(job, layout), abs=few)
    if not {"sequence", "expert"} & sizes.keys():  # where documents end, and who is routed where, is read
        stage = trained.stages[0] if "pipeline" in sizes else loss.hidden
        tokens = torch.zeros(2, whole, dtype=torch.int64)
        assert stage(tokens[:, :64], documents=tokens).shape == (2, 64, 512)


@pytest.mark.parametrize("sizes", [{}, {"tensor": 2}, {"pipeline": 2, "sequence": 2}, {"expert": 4, "tensor": 2}])
def test_the_samples_of_a_step_are_the_same_however_it_is_divided(world: Group, sizes: dict[str, int]) -> None:
    """Each sample is of as many processes as share a copy of the model, and the order is that of one process."""
    config = TrainConfig(global_batch_size=32, tokens=10**6)
    copies = prod(size for axis, size in sizes.items() if axis != "expert")
    seen: list[int] = []
    for rank in range(16):
        engine: Any = SimpleNamespace(config=config, mesh=Mesh(Group(rank, 16), sizes))
        seen += Engine.positions(engine, 3)
    assert sorted(seen) == sorted([*range(96, 128)] * copies)


def test_gathered_keys_need_no_divisible_heads_and_dropout_is_not_drawn_by_several() -> None:
    gather = TrainConfig(processes=16, sequence_parallel=16, sequence_attention="gather", global_batch_size=16)
    assert not gather.shape_problem({**SHAPE, "num_key_value_heads": 1})
    config = TrainConfig(processes=2, tensor_parallel=2)
    assert "attention_dropout=0.1" in config.shape_problem({**SHAPE, "attention_dropout": 0.1})
    assert not config.shape_problem({**SHAPE, "attention_dropout": 0.0})


@pytest.mark.parametrize(("kind", "named"), [
    ("recurrent_gemma", "RecurrentGemmaDecoderLayer"), ("rwkv", "RwkvSelfAttention"), ("gpt_neo", ""), ("gpt2", "")])
def test_what_is_no_attention_is_found(kind: str, named: str) -> None:
    with torch.device("meta"):
        assert recurrent(AutoModelForCausalLM.from_config(AutoConfig.for_model(kind))) == named


def test_what_carries_a_state_along_a_sample_is_refused_where_that_would_be_wrong(world: Group) -> None:
    model, tokens = make("qwen3_5_text"), torch.zeros(1, 8, dtype=torch.int64)
    with pytest.raises(InputError, match="sequence_parallel=2 is not for qwen3_5_text models, whose Qwen3_5GatedDelta"):
        divide_sequence(model, Mesh(world, {"sequence": 2}))
    with pytest.raises(InputError, match="nothing keeps Qwen3_5GatedDeltaNet within one: set document_mask=false"):
        LossModule(model, 1, torch.float32, 0.0, 8).hidden(tokens, tokens)
    with pytest.raises(InputError, match="pipeline_parallel is not for gpt2 models"):
        Pipeline(LossModule(make("gpt2"), 1, torch.float32, 0.0, 8), Mesh(world, {"pipeline": 2}), 1)


def test_stage_3_with_selective_recomputation_is_for_layers_without_biases() -> None:
    """DeepSpeed adds a bias in place to a product that is kept: gradients were off by a part in 300."""
    config = TrainConfig(engine={"name": "zero", "stage": 3}, recompute="selective")
    with FakeTensorMode(), pytest.raises(InputError, match=r"query_key_value of this gpt_neox model has one: set rec"):
        DeepSpeedEngine(make("gpt_neox"), 1, config, Group())
    full = config.model_copy(update={"recompute": "full"})
    for kind, given in (("llama", config), ("gpt_neox", full)):
        with FakeTensorMode():
            _check_biases(make(kind), given)


def test_buffers_of_nvme_that_cannot_be_locked_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argosy.model.train.engines.zero.lockable_bytes", lambda: 8e6)
    engine = {"name": "zero", "stage": 3, "offload": "all", "nvme_path": "/nvme"}
    with pytest.raises(InputError, match=r"nvme_path=/nvme locks 36 MB .* may lock 8.0 MB: raise that .* LimitMEMLOCK"):
        check_locked(TrainConfig(engine=engine), 10**6, 10**6)
    check_locked(TrainConfig(engine=engine), 10**5, 10**5)


@pytest.mark.parametrize(("fields", "message"), [
    ({"tensor_parallel": 8, "processes": 8}, "tensor_parallel=8 does not divide the model's num_attention_heads=4"),
    ({"tensor_parallel": 4, "processes": 2}, "a multiple of 4 processes, and processes=2: set processes=4"),
    ({"pipeline_parallel": 2, "processes": 2}, "set micro_batch_size=16"),
    ({"pipeline_parallel": 2, "processes": 2, "engine": {"name": "zero", "stage": 3}}, "with ZeRO: set engine=fsdp"),
    ({"pipeline_parallel": 2, "processes": 2, "micro_batch_size": 4, "pipeline_interleave": 8}, "6 stages at most"),
    ({"pipeline_parallel": 2, "processes": 2, "micro_batch_size": 4, "pipeline_schedule": "zero_bubble",
      "recompute": "full"}, "set recompute=none"),
    ({"sequence_parallel": 3, "processes": 3, "sequence_attention": "gather"}, "does not divide sequence_length=128"),
    ({"sequence_parallel": 8, "processes": 8}, "is sequence_parallel=4; or set sequence_attention=gather"),
    ({"sequence_attention": "gather", "processes": 1}, "gather needs sequence_parallel above 1"),
    ({"expert_parallel": 2, "processes": 2}, "needs a model of experts"),
    ({"tensor_parallel": 2, "processes": 2, "optimizer": "muon"}, "optimizer=adamw"),
    ({"expert_parallel": 2, "processes": 4, "engine": {"name": "fsdp", "shard_size": 2}}, "shard_size=2 is not for"),
    ({"processes": 2, "dtype": "float32", "engine": {"name": "fsdp", "param_dtype": "bfloat16"}}, "is with dtype=bfl"),
    ({"tensor_parallel": 2, "processes": 2, "fp8": True}, "fp8=true is for whole matrices")])
def test_what_cannot_be_is_refused_with_what_can(fields: dict[str, Any], message: str) -> None:
    given = {"global_batch_size": 33 if fields["processes"] == 3 else 32, **fields}
    with pytest.raises(ValidationError, match=message):
        LifecycleConfig.model_validate({"pretrain": given})
    assert TrainConfig().micro_batches == 1
