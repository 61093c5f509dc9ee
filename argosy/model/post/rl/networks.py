"""The networks of reinforcement learning, each on the device of its process: the policy and the value model in engines
of their own, the reference frozen."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from argosy.model.infer.source import open_source
from argosy.model.post.preferences.rewards import load_reward_model, merge_heads
from argosy.model.post.rl.config import RLHFConfig
from argosy.model.post.rl.methods import METHODS
from argosy.model.post.rl.objective import Clipping, PolicyLoss, ValueLoss, clips
from argosy.model.post.stage import Stage
from argosy.model.train.config import TrainConfig
from argosy.model.train.engines import make_engine
from argosy.model.train.engines.base import Engine
from argosy.model.train.engines.whole import WholeModel
from argosy.model.train.layers.packed import lay_out
from argosy.model.train.parallel import Group
from argosy.model.weights.adapters.layers import without_adapters

Rows = Sequence[tuple[list[int], list[int]]]  # prompts and answers


@dataclass
class Networks:
    """Policy, reference and value model; saved and loaded as one.

    Attributes:
        reference: a module with frozen weights; the policy's own, where that has adapters, which are switched off then;
            None: there is none."""

    policy: Engine
    phase: TrainConfig
    whole: WholeModel
    reference: Any = None
    value: Engine | None = None

    @property
    def group(self) -> Group:
        """Return the processes that train."""
        return self.policy.group

    def save(self, directory: Path) -> None:
        """Write what both engines need to go on."""
        for name, engine in self._engines():
            self._folder(directory, name).mkdir(parents=True, exist_ok=True)
            engine.save(self._folder(directory, name))

    def load(self, directory: Path) -> None:
        """Go on with what `save` wrote."""
        for name, engine in self._engines():
            engine.load(self._folder(directory, name))

    def reference_logprobs(self, rows: Rows) -> Tensor:
        """Return the log-probabilities of the answers' tokens under the reference, as `score` does; 0 without one."""
        if self.reference is None:
            return torch.zeros(len(rows), max(len(answer) for _, answer in rows))
        if self.reference is not self.policy.module:
            return self.score(self.reference, rows)
        with without_adapters(self.policy.module.model):
            return self.score(self.reference, rows)

    def _engines(self) -> list[tuple[str, Engine]]:
        return [("policy", self.policy), *([("value", self.value)] if self.value else [])]

    def _folder(self, directory: Path, name: str) -> Path:
        return directory / name

    def score(self, module: Any, rows: Rows) -> Tensor:
        """Return what a module says of each answer's tokens, (answers, longest answer), 0 behind an end.

        Every process scores its share, and gets all."""
        own, found = self.group.share(rows), []
        module.eval()
        with torch.no_grad():
            for at in range(0, len(own), self.phase.micro_batch):
                part = own[at : at + self.phase.micro_batch]
                found += module(*laid_out(part, self.group.device)).cpu().split([len(answer) for _, answer in part])
        return pad_sequence([each for part in self.group.gathered(found) for each in part], batch_first=True)


def laid_out(rows: Rows, device: Any) -> tuple[Tensor, ...]:
    """Lay prompts with their answers end to end; the answers' tokens are the targets."""
    counted = [[False] * len(prompt) + [True] * len(answer) for prompt, answer in rows]
    return tuple(lay_out([[*prompt, *answer] for prompt, answer in rows], counted, device))


def make_networks(stage: Stage[RLHFConfig], model: Any, steps: int, length: int) -> Networks:
    """Return the networks around the policy `model`, for so many rollouts of answers that have, with their prompts, at
    most `length` tokens."""
    config, group, source = stage.config, stage.group, stage.source
    phase = config.phase(steps * config.updates, config.batch_size // config.minibatches, length)
    dtype, row = getattr(torch, phase.dtype), length * phase.micro_batch
    low, high = clips(config.loss)
    kl_coef = config.kl_coef if config.choice("kl") == "loss" else 0.0
    clipping = Clipping(config.choice("ratio"), low, high, config.loss.importance_cap, kl_coef)

    def policy(model: Any) -> PolicyLoss:
        return PolicyLoss(model, clipping, config.temperature, dtype, row, phase.attention)

    engine = make_engine(model, 0, phase, group, policy)
    made = Networks(engine, phase, WholeModel(engine, stage.model))
    if config.kl_coef:
        made.reference = engine.module if config.lora else policy(source.causal_model().requires_grad_(False))
    if METHODS[config.method].valued:
        rates = phase.model_copy(update={"learning_rate": config.ppo.value_learning_rate})
        value = stage.adapt(load_value_model(stage), whole=("score",))
        made.value = make_engine(value, 0, rates, group, lambda model: ValueLoss(
            model, config.ppo.value_clip, dtype, row, phase.attention))
    return made


def load_value_model(stage: Stage[RLHFConfig]) -> Any:
    """Load a model with a head of one number for each position.

    It starts from `reward_model` (body and head, of several their mean; Ouyang et al. 2022), else from the policy's
    checkpoint with a head of zeros."""
    config, source = stage.config, stage.source
    if config.reward_model:
        return merge_heads(load_reward_model(open_source("reward_model", config.reward_model, source.device)))
    model = load_reward_model(source, config.seed)
    torch.nn.init.zeros_(model.score.weight)
    return model
