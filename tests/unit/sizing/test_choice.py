"""The layouts that are worth a try, and how long the planner expects their steps to be."""

from itertools import pairwise

import pytest

from argosy.sizing.architecture import read_architecture
from argosy.sizing.choice import ALIKE, candidates, of_cpu, step_seconds
from argosy.sizing.gpus import GPUS
from argosy.sizing.job import Job, Layout
from argosy.training.config import TrainConfig

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


def test_a_step_is_its_arithmetic_and_its_traffic() -> None:
    """By hand: 6 operations for a token and a parameter that multiplies, and the scores; two processes send as well."""
    job = Job(B8, 4096, 8, 1)
    tokens, scores = 8 * 4096, 12 * 4096 * 4096 * 32
    alone = step_seconds(job, Layout(1), H100, 0.4, 1)
    assert alone == pytest.approx(tokens * (6 * (B8.parameters("attention", "mlp", "head")) + scores)
                                  / (H100.flops * 0.4))
    two = step_seconds(job, Layout(2), H100, 0.4, 2)
    assert two - alone / 2 == pytest.approx(4 * B8.parameters() / H100.link)
    cpu = of_cpu(16e9, 1e11)
    assert step_seconds(job, Layout(1), cpu, 0.4, 1) == pytest.approx(alone * H100.flops / 1e11)
