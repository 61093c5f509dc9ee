"""The networks of reinforcement learning, each on the device of its process, and their losses: policy and value model
in engines of their own, around which modules give the losses; the reference frozen.

Tokens are those of answers laid end to end, but in the first functions, whose tensors are (answers, T)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from argosy.corpus.tokens.windows import IGNORED
from argosy.model.infer.logprobs import k3
from argosy.model.post.preferences.rewards import load_reward_model, merge_heads
from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.methods import METHODS, Outcome, whiten
from argosy.model.post.stage import Stage, open_source
from argosy.model.train.config import TrainConfig
from argosy.model.train.engines import make_engine
from argosy.model.train.engines.base import Engine
from argosy.model.train.engines.parts import WholeModel
from argosy.model.train.layers.attention import Choice
from argosy.model.train.layers.loss import linear_logprobs
from argosy.model.train.layers.packed import PackedModel, lay_out
from argosy.model.train.parallelism import Group
from argosy.model.weights.adapters.layers import without_adapters


def advantages_of(outcome: Outcome, config: RLHFConfig) -> tuple[Any, Any]:
    """Return the scaled advantages, (answers, T), and the returns, (answers, T), or None without a value model."""
    found, returns = config.chosen.advantages(outcome, config)
    scale = config.choice("scale")
    if scale == "batch":
        return whiten(found, outcome.mask), returns
    if scale == "group":
        groups = outcome.by_group(config.copies, config.kl_coef)
        found = found / (groups.std(1, keepdim=True).repeat_interleave(groups.shape[1], 1).reshape(-1, 1) + 1e-4)
    return found, returns


def token_weights(config: RLHFConfig, mask: Any, left_out: Any) -> tuple[Any, Callable[[Any], float]]:
    """Return the weight of each token in the loss, (answers, T), and the function of a minibatch's rows that gives what
    their weighted sum is divided by. `left_out`: (answers,), 1 where the answer does not count."""
    counted = mask * (1 - left_out).unsqueeze(1)
    kind = config.choice("normalizer")
    if kind == "token":
        return counted, lambda rows: max(1.0, float(counted[rows].sum()))
    if kind == "constant":
        return counted, lambda rows: float(len(rows) * config.max_new_tokens)
    return counted / mask.sum(1, keepdim=True).clamp(min=1), lambda rows: float(len(rows))


def deductions(config: RLHFConfig, lengths: Any, ended: Any) -> Any:
    """Return what is deducted from each answer's reward for its length, (answers,)."""
    found = config.length.penalty * (1 - ended)
    if soft := config.length.soft_tokens:
        found = found + ((lengths - (config.max_new_tokens - soft)) / soft).clamp(0, 1)
    return found


@dataclass(frozen=True)
class Clipping:
    """Settings of the policy's loss: whose ratio is clipped, to which bounds; the largest importance weight; the weight
    of the divergence in the loss."""

    ratio: str
    low: float
    high: float
    cap: float
    kl_coef: float

    @classmethod
    def of(cls, config: RLHFConfig) -> "Clipping":
        loss, high = config.loss, 1 + (config.loss.clip_high or config.loss.clip)
        kl_coef = config.kl_coef if config.choice("kl") == "loss" else 0.0
        return cls(config.choice("ratio"), 1 - loss.clip, high, loss.importance_cap, kl_coef)


def policy_loss(logprobs: Tensor, old: Tensor, sampled: Tensor, reference: Tensor, advantages: Tensor, weights: Tensor,
                *, numbers: Tensor, clipping: Clipping) -> tuple[Tensor, Tensor]:
    """Return the weighted sum of tokens' losses (Schulman et al. 2017, eq. 7), and the part of `weights`, (), clipped.

    Args:
        logprobs, old, sampled, reference: (tokens,), under the policy, the policy before the update (NaN: as it is
            now), the sampler, and the reference.
        advantages, weights: (tokens,).
        numbers: (tokens,), int64, 0, 1, ... of each token's answer."""
    old = torch.where(old.isnan(), logprobs.detach(), old)
    moved = logprobs - old
    if clipping.ratio != "token":
        count = int(numbers.max()) + 1
        sums = moved.new_zeros(count).index_add(0, numbers, moved)
        if clipping.ratio == "sequence_mean":
            sums = sums / numbers.bincount(minlength=count)
        moved = sums[numbers]
    ratio = moved.exp()
    free = -advantages * ratio
    held = -advantages * ratio.clamp(clipping.low, clipping.high)
    losses = torch.max(free, held) * (old - sampled).exp().clamp(max=clipping.cap)
    if clipping.kl_coef:
        losses = losses + clipping.kl_coef * k3(logprobs, reference)
    return (losses * weights).sum(), ((held > free) * weights).sum().detach()


def value_loss(values: Tensor, old: Tensor, returns: Tensor, weights: Tensor, *, clip: float) -> Tensor:
    """Return the weighted sum of half the squared error: the worse of the value's and of that held near its old one."""
    near = old + (values - old).clamp(-clip, clip)
    return 0.5 * (torch.max((values - returns) ** 2, (near - returns) ** 2) * weights).sum()


class PolicyLoss(PackedModel):
    """A policy whose forward gives log-probabilities of answers, or their loss.

    Args:
        temperature: of the policy that samples; part of its log-probabilities (Huang et al. 2024, detail 12)."""

    def __init__(self, model: Any, clipping: Clipping, temperature: float, dtype: torch.dtype, length: int,
                 attention: Choice = "auto") -> None:
        super().__init__(model, dtype, length, attention)
        self._clipping, self._temperature = clipping, temperature

    def forward(self, ids: Tensor, targets: Tensor, documents: Tensor, positions: Tensor,
                facts: Tensor | None = None) -> Any:
        """Return the summed loss of the tokens, and the sums of loss, clipping, entropy and tokens, (4,).

        Args:
            ids, targets, documents, positions: as `Packed`.
            facts: (5, tokens): `old`, `sampled`, `reference`, `advantages` and `weights` of policy_loss; None: return
                the tokens' log-probabilities instead, (tokens,)."""
        places = (targets.flatten() != IGNORED).nonzero().squeeze(1)  # no logits for the others
        hidden = self.hidden(ids, documents, positions).flatten(0, 1)[places]
        weight = self.model.get_output_embeddings().weight
        found, entropies = linear_logprobs(hidden, weight, targets.flatten()[places], self._temperature, self._dtype)
        if facts is None:
            return found
        numbers = documents.flatten()[places]
        loss, clipped = policy_loss(found, *facts.unbind(), numbers=numbers, clipping=self._clipping)
        sums = torch.stack([loss.detach(), clipped, entropies.sum(), torch.ones_like(found).sum()]).double()
        return loss + self.auxiliary(ids, facts[4].sum()), sums


class ValueLoss(PackedModel):
    """A model with a head of one number, `score`: forward gives the values before answers' tokens, or their loss."""

    def __init__(self, model: Any, clip: float, dtype: torch.dtype, length: int, attention: Choice = "auto") -> None:
        super().__init__(model, dtype, length, attention)
        self._clip = clip

    def forward(self, ids: Tensor, targets: Tensor, documents: Tensor, positions: Tensor,
                facts: Tensor | None = None) -> Any:
        """Return the summed loss of the tokens, and that sum, (1,).

        `facts`: (3, tokens): old values, returns and weights; None: return the values instead, (tokens,)."""
        places = (targets.flatten() != IGNORED).nonzero().squeeze(1)
        states = self.hidden(ids, documents, positions).flatten(0, 1)[places]
        values = self.model.score(states.to(self.model.score.weight.dtype)).float().squeeze(1)
        if facts is None:
            return values
        loss = value_loss(values, *facts.unbind(), clip=self._clip)
        return loss + self.auxiliary(ids, facts[2].sum()), loss.detach().double()[None]


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
        return self.policy.group

    def save(self, directory: Path) -> None:
        for name, engine in self._engines():
            (directory / name).mkdir(parents=True, exist_ok=True)
            engine.save(directory / name)

    @property
    def holds_parts(self) -> bool:
        return all(engine.holds_parts for _, engine in self._engines())

    @property
    def settled(self) -> bool:
        return all(engine.settled for _, engine in self._engines())

    def load(self, directory: Path) -> None:
        for name, engine in self._engines():
            engine.load(directory / name)

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
    """Return the networks around policy `model` for `steps` rollouts of prompts and answers up to `length` tokens."""
    config, group, source = stage.config, stage.group, stage.source
    phase = config.phase(steps * config.updates, config.batch_size // config.minibatches, length)
    dtype, row = getattr(torch, phase.dtype), length * phase.micro_batch
    clipping = Clipping.of(config)

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
    """Load a model with a head of one number for each position. It starts from `reward_model` (body and head, of
    several their mean; Ouyang et al. 2022), else from the policy's checkpoint with a head of zeros."""
    config, source = stage.config, stage.source
    if config.reward_model:
        return merge_heads(load_reward_model(open_source("reward_model", config.reward_model, source.device)))
    model = load_reward_model(source, config.seed)
    torch.nn.init.zeros_(model.score.weight)
    return model
