"""The whole loop against a plain loop of torch, step by step."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from argosy.core.step.contract import Progress, StepContext
from argosy.corpus.data.split import derive_seed
from argosy.corpus.tokens.mixture import Mixture
from argosy.corpus.tokens.reader import read_channels
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.phase import build_model, train_phase
from tests.training_fixtures import Recorder, write_tokenized

STEPS, WARMUP, LENGTH, BATCH, RATE, FINAL, DECAY, NORM = 200, 20, 32, 4, 3e-3, 0.1, 0.1, 1.0
SHARES = {"a": 2.0, "b": 1.0}
MODEL = ModelConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                    num_key_value_heads=1, max_position_embeddings=LENGTH)
def model() -> Any:
    torch.manual_seed(0)
    return build_model(MODEL, 48, {})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents whose tokens go up by 1 to 3 (channel a), or by twice that (b), of 48 tokens."""
    directory, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)

    def document(factor: int) -> tuple[list[int], int]:
        length = int(rng.integers(4, 40))
        return [1, *(3 + np.cumsum(rng.integers(1, 4, length)) * factor % 45).tolist(), 2], 2 * length

    splits = {split: {name: [document(factor) for _ in range(count)] for name, factor in (("a", 1), ("b", 2))}
              for split, count in (("train", 60), ("heldout", 4))}
    write_tokenized(directory, splits, 48)
    return directory


@pytest.fixture(scope="module")
def ours(data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    config = TrainConfig(
        tokenized=str(data), mixture=SHARES, sequence_length=LENGTH, global_batch_size=BATCH,
        tokens=STEPS * BATCH * LENGTH, dtype="float32", log_every=1, learning_rate=RATE, final_learning_rate=FINAL,
        warmup_tokens=WARMUP * BATCH * LENGTH, weight_decay=DECAY, max_grad_norm=NORM, heldout_tokens=100,
        heldout_points=1, save_every=STEPS)  # fmt: skip
    recorder = Recorder()
    context = StepContext(tmp_path_factory.mktemp("out"), recorder, Progress(None))
    train_phase(config, context, "pretrain", model(), SimpleNamespace(save_pretrained=lambda path: None))
    return [recorder.logged["train/loss", step] for step in range(1, STEPS + 1)]


def test_every_step_equals_a_plain_loop(data: Path, ours: list[float]) -> None:
    plain = model()
    mixture = Mixture(read_channels(data, "train"), SHARES, LENGTH, derive_seed("sampling", 0, "pretrain"))
    embedding = plain.get_input_embeddings().weight  # the output layer's too
    matrices = [each for each in plain.parameters() if each.ndim == 2 and each is not embedding]
    others = [each for each in plain.parameters() if each.ndim == 1 or each is embedding]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0}],
                                  lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    clipped = 0
    for step in range(STEPS):
        batch = mixture.batch(range(step * BATCH, (step + 1) * BATCH))
        documents = torch.from_numpy(batch.documents)
        allowed = (documents[:, :, None] == documents[:, None, :]).tril()
        logits = plain(torch.from_numpy(batch.inputs), attention_mask=allowed[:, None], use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), torch.from_numpy(batch.targets).flatten())
        optimizer.zero_grad()
        loss.backward()
        clipped += int(torch.nn.utils.clip_grad_norm_(plain.parameters(), NORM) > NORM)
        cosine = 0.5 + 0.5 * math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))
        rate = RATE * ((step + 1) / (WARMUP + 1) if step < WARMUP else FINAL + (1 - FINAL) * cosine)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        assert ours[step] == pytest.approx(loss.item(), rel=1e-6), step
    assert 0 < clipped < STEPS  # both ways were gone
