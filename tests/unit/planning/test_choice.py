"""The layouts that are worth a try, and how long the planner expects their steps to be."""

from itertools import pairwise

import pytest

from argosy.model.train.config import TrainConfig
from argosy.model.train.sizing.architecture import read_architecture
from argosy.model.train.sizing.gpus import GPUS
from argosy.model.train.sizing.job import Job, Layout
from argosy.planning.choice import ALIKE, Speed, candidates, of_cpu, step_seconds

H100 = GPUS["h100"]
B8 = read_architecture({"model_type": "llama", "vocab_size": 128256, "intermediate_size": 14336,
                        "num_key_value_heads": 8})  # fmt: skip
JOB = Job(B8, 4096, 512, 1)


def test_the_fastest_comes_first_and_each_is_a_config() -> None:
    found = candidates(JOB, H100, 8, 0.4, lambda values: "tensor_parallel" not in values)
    assert 2 <= len(found) <= 4
    times = [each.seconds for each in found]
    assert times == sorted(times)
    assert all(late - early >= ALIKE * early for early, late in pairwise(times))
    for each in found:
        assert each.proposal.memory.total <= H100.usable
        assert TrainConfig.model_validate({**each.values, "global_batch_size": 512}).processes == 8
        assert "tensor_parallel" not in each.values


def test_a_step_is_its_arithmetic_its_traffic_and_its_update() -> None:
    """By hand: 6 operations for a token and a parameter that multiplies, and the scores; two processes send as well;
    AdamW reads weights, gradients and two moments, and writes all but the gradients."""
    job = Job(B8, 4096, 8, 1)
    tokens, scores = 8 * 4096, 12 * 4096 * 4096 * 32
    update = 28 * B8.parameters() / H100.bandwidth
    work = tokens * (6 * (B8.parameters("attention", "mlp", "head")) + scores) / (H100.flops * 0.4)
    assert step_seconds(job, Layout(1), H100, 0.4, 1) == pytest.approx(work + update)
    two = step_seconds(job, Layout(2, engine="torch"), H100, 0.4, 2)
    assert two == pytest.approx(work / 2 + update + 4 * B8.parameters() / H100.link + H100.latency)


def test_a_cpu_is_what_its_processes_measured() -> None:
    """By hand, of FSDP2 over two: a block is gathered twice and its gradients are summed once, by collectives of other
    speeds, and so is what is around the blocks; each operation of a block costs its least."""
    links = {"all-reduce": 4e9, "all-gather": 2e9, "reduce-scatter": 1e9}
    cpu = of_cpu(16e9, Speed(1e12, 1e10, links, 1e-3, 1e-5))
    job = Job(B8, 4096, 2, 1)
    alone = step_seconds(job, Layout(1), H100, 0.4, 1) - 28 * B8.parameters() / H100.bandwidth
    half = 4 * B8.parameters() / 2
    sent = 2 * half / 2e9 + half / 1e9 + 3 * 33 * 1e-3
    expected = alone / 2 * H100.flops / 1e12 + 32 * 3 * 40 * 1e-5 + sent + 14 * B8.parameters() / 1e10
    fsdp = Layout(2, zero=3, engine="fsdp")
    assert step_seconds(job, fsdp, cpu, 0.4, 2) == pytest.approx(expected)


def test_a_block_pays_for_its_update_and_its_engine_however_small_it_is() -> None:
    """By hand: two micro-batches on each of two processes whose arithmetic and links take no time."""
    cpu = of_cpu(16e9, Speed(1e40, 1e40, {"all-reduce": 1e40}, 0.0, 1e-5, 100.0, 0.0, {"zero-3": 10.0}))
    job = Job(B8, 128, 4, 1)
    plain = 32 * (2 * 3 * 40 * 1e-5 + 100.0)
    assert step_seconds(job, Layout(2, engine="torch"), cpu, 1.0, 2) == pytest.approx(plain)
    assert step_seconds(job, Layout(2, zero=3), cpu, 1.0, 2) == pytest.approx(plain + 32 * 2 * 10.0)


def test_tensors_leave_the_output_layer_and_what_is_around_the_matrices_whole() -> None:
    """By hand, where arithmetic alone takes time: the vocabulary's matrix is each process's own work."""
    cpu = of_cpu(16e9, Speed(1.0, 1e40, {"all-reduce": 1e40}, 0.0, 0.0, whole=0.5))
    job = Job(B8, 4096, 8, 1)
    head = 6 * 8 * 4096 * B8.parameters("head")
    alone = step_seconds(job, Layout(1, engine="torch"), cpu, 1.0, 1)
    tensors = step_seconds(job, Layout(2, tensor=2, engine="torch"), cpu, 1.0, 2)
    assert tensors == pytest.approx(head + (alone - head) * (0.5 + 0.5 / 2))
    stages = step_seconds(job, Layout(2, pipeline=2, engine="torch"), cpu, 1.0, 2)
    assert stages == pytest.approx((head + (alone - head) / 2) * (1 + 1 / 8))
