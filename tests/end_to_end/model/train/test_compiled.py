"""Compiled blocks beside the same ones without a compiler: numbers, names, and that nothing is compiled twice."""

from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from argosy.corpus.tokens.mixture import Batch
from argosy.model.train.blocks import no_compiler
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.engines import make_engine
from argosy.model.train.parallelism import Group
from argosy.model.train.phase import build_model
from tests.training_fixtures import TINY_MODEL, random_batch, tiny_engine, weights_of
from tests.warm import SERVER

LACK = no_compiler(torch.device("cpu"))
pytestmark = pytest.mark.skipif(bool(LACK), reason=LACK)
EXPERTS = {"count": 4, "per_token": 2, "intermediate_size": 24, "balance_loss": 0.1, "router_z_loss": 0.1,
           "dense_layers": [0]}
MODEL = {**TINY_MODEL, "model_type": "qwen3_moe", "num_hidden_layers": 3, "initializer_range": 0.2, "experts": EXPERTS}


def trained(group: Group, **fields: Any) -> tuple[Tensor, list[int]]:
    """Three steps: nats, each expert's tokens, balance, z-loss, targets, norm, (3, 13); how many graphs after each."""
    torch.manual_seed(0)
    config = TrainConfig(sequence_length=16, global_batch_size=4, micro_batch_size=2, dtype="float32", **fields)
    engine = make_engine(build_model(ModelConfig.model_validate(MODEL), 64, {}), 1, config, group)
    rows, graphs = [], []
    for step in range(3):
        batch, own = random_batch(step), slice(engine.positions(0).start, engine.positions(0).stop)
        nats, _, norm = engine.train_step(Batch(*(each[own] for each in vars(batch).values())), 1e-2)
        rows.append(torch.cat([group.sum(torch.cat([nats, engine.module.routing.take()])), norm[None]]))
        graphs.append(counters["stats"]["unique_graphs"])
    return torch.stack(rows), graphs


def _process(rank: int, out: Path, fields: dict[str, Any]) -> None:
    torch.distributed.init_process_group("gloo", f"file://{out}/meet", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.nn.Module.compile = partialmethod(torch.nn.Module.compile, backend="aot_eager")  # type: ignore[method-assign]
    torch.save((*trained(Group(rank, 2), compile=True, processes=2, **fields), dict(counters["graph_break"])),
               out / str(rank))


@pytest.mark.parametrize("fields", [{"tensor_parallel": 2}, {"expert_parallel": 2, "recompute": "full"}])
def test_divided_blocks_are_captured_once_with_the_numbers_of_one_process(tmp_path: Path,
                                                                          fields: dict[str, Any]) -> None:
    """Their graphs are run without being made into code, which takes the compiler a minute of a core."""
    processes = [SERVER.Process(target=_process, args=(rank, tmp_path, fields)) for rank in range(2)]
    for each in processes:
        each.start()
    plain, none = trained(Group())
    for each in processes:
        each.join()
    assert none == [0, 0, 0]
    for rank in range(2):
        found, graphs, breaks = torch.load(tmp_path / str(rank))
        torch.testing.assert_close(found, plain, rtol=1e-5, atol=0)
        assert torch.equal(found[:, 1:9], plain[:, 1:9])  # each expert's tokens
        assert graphs[0] == graphs[2] > 0  # of a dense block, attention and norms: other loads compile nothing anew
        assert not breaks


def test_compiled_code_keeps_names_and_numbers(tmp_path: Path) -> None:
    plain, made = tiny_engine(), tiny_engine(compile=True)
    for step in range(2):
        ours, theirs = (each.train_step(random_batch(step), 1e-2) for each in (made, plain))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)
    assert counters["inductor"]["fxgraph_cache_miss"] + counters["inductor"]["fxgraph_cache_hit"] > 0
    assert [name for name, _ in made.weights()] == [name for name, _ in plain.weights()]
    made.save(tmp_path)
    plain.load(tmp_path)
    assert torch.equal(weights_of(made), weights_of(plain))
