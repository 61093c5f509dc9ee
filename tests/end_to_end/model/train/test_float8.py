"""Weights that FSDP2 gathers in 8 bits, beside those gathered whole: torchao's arithmetic, emulated on the CPU."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from argosy.corpus.tokens.mixture import Batch
from argosy.model.train import precision
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.engines import make_engine
from argosy.model.train.parallelism import Group
from argosy.model.train.phase import build_model
from tests.training_fixtures import TINY_MODEL, random_batch
from tests.warm import SERVER

pytest.importorskip("torchao", reason="torchao is not installed, which computes in 8 bits")


def _process(rank: int, out: Path, *, gathered: bool) -> None:
    """Three steps from a model without memory, of which the last is of an engine that goes on."""
    import torchao.float8 as float8

    torch.distributed.init_process_group("gloo", f"file://{out}/meet", rank=rank, world_size=2)
    torch.set_num_threads(1)
    wanted: list[bool] = []

    def emulated(enable_fsdp_float8_all_gather: bool) -> Any:
        wanted.append(enable_fsdp_float8_all_gather)
        return made(emulate=True, enable_fsdp_float8_all_gather=gathered)

    made, float8.Float8LinearConfig = float8.Float8LinearConfig, emulated
    precision._problem = lambda config, capability: ""
    float8.precompute_float8_dynamic_scale_for_fsdp = (
        float8.precompute_float8_dynamic_scale_for_fsdp if gathered else lambda module: None)
    config = TrainConfig(sequence_length=16, global_batch_size=4, fp8=True, processes=2, engine="fsdp")
    model, group = ModelConfig.model_validate(TINY_MODEL), Group(rank, 2)
    engines, rows = [make_engine(build_model(model, 64, {}, whole=False), 1, config, group) for _ in range(2)], []
    for step in range(3):
        if step == 2:
            engines[0].save(out / "state")
            group.barrier()
            engines[1].load(out / "state")
        batch, own = random_batch(step), slice(2 * rank, 2 * rank + 2)
        nats, _, norm = engines[step // 2].train_step(Batch(*(each[own] for each in vars(batch).values())), 1e-2)
        rows.append(torch.cat([group.sum(nats), norm[None].double()]))
    weights = dict(engines[1].weights())
    assert wanted == [True, True]
    assert all(type(each) is Tensor for each in weights.values())
    torch.save((torch.stack(rows), weights), out / str(rank))


def test_weights_gathered_in_8_bits_train_in_equal_bytes(tmp_path: Path) -> None:
    found = []
    for gathered in (True, False):
        out = tmp_path / str(gathered)
        (out / "state").mkdir(parents=True)
        processes = [SERVER.Process(target=partial(_process, gathered=gathered), args=(rank, out)) for rank in range(2)]
        for each in processes:
            each.start()
        for each in processes:
            each.join()
        found.append(torch.load(out / "0"))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1].keys() == found[1][1].keys()
    assert all(torch.equal(each, found[1][1][name]) for name, each in found[0][1].items())
