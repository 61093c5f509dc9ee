"""Proposals in the order of practice, their traffic and time, and advice when memory runs out."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.model.train.config import TrainConfig
from argosy.model.train.engines import fitting
from argosy.model.train.sizing.advice import advice
from argosy.model.train.sizing.architecture import Architecture, read_architecture
from argosy.model.train.sizing.gpus import bubble, estimate, find_gpu, forward_flops, training_flops
from argosy.model.train.sizing.job import Job, Layout, read_layout
from argosy.model.train.sizing.layouts import fields, fit, ladder, propose
from argosy.planning.report import traffic

H100 = find_gpu("H100")


def llama(layers: int, hidden: int, inner: int, heads: int) -> Architecture:
    return read_architecture({"model_type": "llama", "vocab_size": 128256, "hidden_size": hidden,
                              "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
                              "num_key_value_heads": 8})  # fmt: skip


B1, B8, B70 = llama(16, 2048, 8192, 32), llama(32, 4096, 14336, 32), llama(80, 8192, 28672, 64)


def job_of(model: Architecture, **given: Any) -> Job:
    return Job(model, 4096, 512, tokens=10**10, **given)


def test_order_of_practice() -> None:
    """Data parallelism, ZeRO-1, 2, offload, 3; then divided computation; recomputation last."""
    order = list(ladder(job_of(B70), 64, 8))
    states = [(each.zero, each.offload, each.engine) for each in order[:6]]
    assert states == [(0, "none", "zero"), (1, "none", "zero"), (2, "none", "zero"),
                      (2, "optimizer", "zero"), (3, "none", "zero"), (3, "none", "fsdp")]
    divided = [each.tensor * each.pipeline > 1 for each in order if each.recompute == "none"]
    assert divided == sorted(divided)
    again = [each.recompute != "none" for each in order]
    assert again == sorted(again)
    assert {each.tensor for each in order} == {1, 2, 4, 8}  # of a node, dividing the 8 heads of keys and values
    mixtral = job_of(read_architecture({"model_type": "mixtral"}))
    order = list(ladder(mixtral, 64, 8))
    assert {(each.pipeline, each.expert) for each in order} >= {(1, 8), (2, 4), (8, 8), (8, 1)}
    found = [fit(mixtral, each, H100.usable) for each in order if each.pipeline > 1]
    assert not [each for each in found if each.layout.accumulation(each.job) % each.layout.pipeline]


@pytest.mark.parametrize(("model", "gpus", "first"), [
    (B1, 1, "one GPU"), (B1, 8, "data parallelism"), (B8, 8, "FSDP2"),
    (B70, 64, "ZeRO-3, recomputation of all"),
], ids=["1b-alone", "1b", "8b", "70b"])
def test_the_first_layout_that_fits_comes_first(model: Architecture, gpus: int, first: str) -> None:
    found = propose(job_of(model), H100.usable, gpus, 8)
    assert found.fitting[0].name == first
    assert all(each.memory.total <= H100.usable for each in found.fitting)
    assert all(each.memory.total > H100.usable and each.job.micro_batch_size == 1 for each in found.failing)
    needless = [each for each in found.fitting[1:] if each.layout.tensor * each.layout.pipeline > 1]
    assert not needless


def test_a_phase_has_the_layout_that_its_fields_say() -> None:
    def layout(on_cpu: bool = False, **given: Any) -> Layout:
        config = TrainConfig.model_validate({"processes": 8, "global_batch_size": 8, **given})
        return read_layout(config.model_dump(), 8, on_cpu=on_cpu)

    assert layout() == Layout(8)
    assert layout(on_cpu=True) == Layout(8, engine="torch")
    assert layout(engine={"name": "zero", "stage": 2, "offload": "optimizer"}) == Layout(8, zero=2, offload="optimizer")
    kept = layout(engine={"name": "fsdp", "shard_size": 4, "reshard": False})
    assert kept == Layout(8, zero=3, engine="fsdp", shard=4, reshard=False)
    assert layout(tensor_parallel=2, sequence_parallel=2) == Layout(8, tensor=2, engine="torch", context=2)


def test_traffic_is_that_of_the_papers() -> None:
    """Twice the gradients without ZeRO, and of its stages 1 and 2; three times in the third (its section 7)."""
    job = replace(job_of(B8), global_batch_size=64, micro_batch_size=0)
    whole = 4 * B8.parameters() * 63 / 64
    for zero, reshard, times in ((0, True, 2), (1, True, 2), (2, True, 2), (3, True, 3), (3, False, 2)):
        found = traffic(job, Layout(64, zero=zero, reshard=reshard), 8)
        assert sum(sent.bytes for sent in found) == pytest.approx(times * whole)
        assert all(sent.nodes for sent in found)
    found = traffic(replace(job, optimizer="adamw_bf16"), Layout(64, zero=3, engine="fsdp"), 8)
    assert sum(sent.bytes for sent in found) == pytest.approx(2 * whole)  # bfloat16 weights twice, float32 sums
    [sent] = [sent for sent in traffic(job, Layout(4, tensor=4), 8) if "activations" in sent.purpose]
    tokens = 64 * job.sequence_length
    assert sent.bytes == pytest.approx(32 * 4 * 3 / 4 * tokens * 4096 * (4 + 2))  # four gathers and sums in a block
    assert not sent.nodes
    [sent] = traffic(job, Layout(4, pipeline=4), 8)
    assert (sent.kind, sent.bytes) == ("point to point", 2 * tokens * 4096 * 4)
    [sent] = [sent for sent in traffic(job, Layout(4, context=4), 8) if "heads" in sent.purpose]
    assert sent.bytes == 2 * 32 * 3 / 4 * tokens / 4 * (4 * (4096 + 2 * 1024) + 2 * 4096)
    [sent] = [sent for sent in traffic(job, Layout(4, context=4, whole_keys=True), 8) if "keys" in sent.purpose]
    assert sent.bytes == 3 * 32 * 3 * tokens / 4 * 2 * 2 * 1024
    mixtral = job_of(read_architecture({"model_type": "mixtral"}), micro_batch_size=1)
    assert "all-to-all" in {sent.kind for sent in traffic(mixtral, Layout(8, expert=8), 8)}


def test_time_follows_from_flops_and_a_pipeline_waits() -> None:
    job = job_of(B8, micro_batch_size=1)
    found = estimate(job, Layout(8), H100, mfu=0.5, price=2.0)
    flops = 3 * forward_flops(B8, job.tokens, job.sequence_length)
    assert found.seconds == pytest.approx(flops / (8 * 989.4e12 * 0.5))
    assert found.cost == pytest.approx(found.seconds / 3600 * 8 * 2.0)
    assert found.tokens_a_day == pytest.approx(job.tokens / found.seconds * 86400)
    piped = Layout(8, pipeline=8)
    assert bubble(job, piped) == 7 / 512
    assert estimate(job, piped, H100, 0.5, 2.0).seconds == pytest.approx(found.seconds * (1 + 7 / 512))
    assert 1.3 < training_flops(job, Layout(recompute="full"), 1000) / training_flops(job, Layout(), 1000) < 1.34


def test_advice_goes_from_the_cheapest_change_to_one_that_fits() -> None:
    config = TrainConfig(sequence_length=4096, global_batch_size=64, micro_batch_size=4).model_dump()
    lines = advice(config, B8, 8, H100.memory)
    assert lines[0].startswith("the estimate is ")
    begins = ("micro_batch_size=1", *(f"engine={{name: zero, stage: {stage}" for stage in (
        "1}", "2}", "2, offload: optimizer}", "3}")))
    assert [line.startswith(begin) for line, begin in zip(lines[1:], begins, strict=True)] == [True] * 5
    assert all("not enough" in line for line in lines[1:-1])
    assert "not enough" not in lines[-1]


@pytest.mark.parametrize(("given", "never"), [
    ({"pipeline_parallel": 2, "micro_batch_size": 1}, "name: zero"), ({"tensor_parallel": 2}, "name: zero"),
    ({"dtype": "float16"}, "name: zero"), ({"optimizer": "muon"}, "tensor_parallel")])
def test_advice_names_what_the_phase_can_have(given: dict[str, Any], never: str) -> None:
    config = TrainConfig.model_validate({"sequence_length": 4096, "global_batch_size": 64, "processes": 4, **given})
    shapes = {"num_attention_heads": 64, "num_hidden_layers": 80}
    model = SimpleNamespace(config=SimpleNamespace(to_dict=lambda: shapes))
    lines = advice(config.model_dump(), B70, 4, H100.memory, partial(fitting._allowed, config, model))
    assert any("recompute=full" in line for line in lines)
    assert not [line for line in lines if never in line]
    assert len([line for line in lines if line.startswith("micro_batch_size")]) <= 1
    assert {each.tensor for each in ladder(job_of(B70, optimizer="muon"), 8, 8)} == {1}
    assert fields(Layout(8, expert=2, zero=3, engine="fsdp", shard=2)) is None


@pytest.mark.parametrize("optimizer", ["adamw", "adamw_bf16", "muon", "adafactor"])
def test_a_layout_that_is_proposed_is_taken_and_read_as_it_was(optimizer: str) -> None:
    for layout in ladder(job_of(B8, optimizer=optimizer), 8, 8):
        given = {"optimizer": optimizer, "global_batch_size": 256, "micro_batch_size": 1, **(fields(layout) or {})}
        config = TrainConfig.model_validate(given)
        read = read_layout(config.model_dump(), 8)
        assert (read.engine, read.zero, read.tensor, read.pipeline) == (
            layout.engine, layout.zero, layout.tensor, layout.pipeline)
