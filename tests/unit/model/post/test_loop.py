"""Updates of post-training: an objective of any kind, resumed as if it had never stopped."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from argosy.core.step.contract import Progress, StepContext
from argosy.core.tracking.tracker import Tracker
from argosy.model.post.config import PosttrainingConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.engines import make_engine
from argosy.model.train.layers.linear_logprobs import linear_logprobs
from argosy.model.train.layers.packed import PackedModel, lay_out, sum_by_sequence
from argosy.model.train.loop import Loop
from argosy.model.train.parallel import Group
from argosy.model.train.phase import build_model
from argosy.model.train.updates import Measured
from tests.training_fixtures import TINY_MODEL

SEQUENCES = [[1, 5, 9, 2], [3, 4, 8, 2, 7, 6], [9, 9, 1]]


class Likelihood(PackedModel):
    """An objective: the negative log-likelihood of all but the first token, weighed by sequence."""

    def forward(self, ids: Tensor, targets: Tensor, documents: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.hidden(ids, documents, positions).flatten(0, 1)
        found, _ = linear_logprobs(hidden, self.model.get_output_embeddings().weight, targets.flatten())
        sums = sum_by_sequence(found, documents, int(documents.max()) + 1)
        return -sums.sum(), sums.detach().double().sum()[None]


def _model() -> Any:
    torch.manual_seed(3)
    return build_model(ModelConfig.model_validate(TINY_MODEL), 64, {})


def test_sequences_laid_end_to_end_have_the_log_probabilities_of_each_alone() -> None:
    model = _model().eval()
    module = Likelihood(model, torch.float32, 32)
    packed = lay_out(SEQUENCES, [[True] * len(each) for each in SEQUENCES])
    hidden = module.hidden(packed.ids, packed.documents, packed.positions).flatten(0, 1)
    found, _ = linear_logprobs(hidden, model.get_output_embeddings().weight, packed.targets.flatten())
    together = sum_by_sequence(found, packed.documents, len(SEQUENCES))
    for each, total in zip(SEQUENCES, together, strict=True):
        ids = torch.tensor([each])
        alone = model(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None]).sum()
        assert float(total) == pytest.approx(float(alone), abs=1e-5)


def test_updates_that_are_resumed_end_with_the_same_bytes(tmp_path: Path) -> None:
    config = PosttrainingConfig(batch_size=2, micro_batch_size=1, dtype="float32", log_every=2, save_every=2)
    parts = [tuple(lay_out([each], [[True] * len(each)])) for each in SEQUENCES[:2]]

    def train(out: Path, steps: int, stop: int) -> tuple[dict[str, Tensor], list[int]]:
        phase = config.phase(steps, 2, 16)
        engine = make_engine(_model(), 0, phase, Group(), lambda model: Likelihood(model, torch.float32, 16))
        context = StepContext(out, Tracker(None), Progress(None))
        done: list[int] = []

        def update(number: int) -> dict[str, float]:
            if number == stop:
                raise KeyboardInterrupt
            done.append(number)
            sums, norm = engine.update(parts, 2, 1e-3)
            return {"train/loss": -float(sums[0]), "train/grad_norm": float(norm)}

        Loop(phase, context, engine, Measured(update)).run()
        return engine.weights() or {}, done

    whole, _ = train(tmp_path / "whole", 6, -1)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", 6, 5)
    resumed, done = train(tmp_path / "cut", 6, -1)
    assert done == [4, 5]
    assert all(torch.equal(resumed[name], tensor) for name, tensor in whole.items())
