"""The reward model: a language model whose head of one number, or several that vote, learns the better of two answers.

The loss is that of Bradley and Terry, -log sigmoid(r(chosen) - r(rejected) - margin) (Ouyang et al. 2022, equation 1;
the margin as in Llama 2, Touvron et al. 2023, equation 2); `centering` draws r(chosen) + r(rejected) to 0 (Eisenstein
et al. 2023)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from argosy.core.errors import InputError
from argosy.model.post.config import PreferenceConfig
from argosy.model.post.preferences.examples import Preference, channels_of
from argosy.model.post.preferences.learning import Learner, Part, plan, row_settings
from argosy.model.post.preferences.objective import about, rewards_at, right, tensors
from argosy.model.post.stage import Evaluate, Source, Stage, Trained
from argosy.model.train.engines import make_engine
from argosy.model.train.engines.fitting import explained
from argosy.model.train.engines.parts import WholeModel
from argosy.model.train.layers.attention import Choice
from argosy.model.train.layers.packed import PackedModel
from argosy.model.weights.chat import encode_prompt
from argosy.model.weights.templates import end_at_turn

NAMES = ("loss", "accuracy", "margin", "spread")


class RewardLoss(PackedModel):
    """A sequence classifier whose forward gives the loss of pairs.

    Args:
        centering: weight of (r(chosen) + r(rejected))^2."""

    def __init__(
        self, model: Any, centering: float, channels: int, dtype: torch.dtype, length: int, attention: Choice = "auto"
    ) -> None:
        super().__init__(model, dtype, length, attention)
        self._centering, self._channels = centering, channels

    def forward(
        self, ids: Tensor, targets: Tensor, documents: Tensor, positions: Tensor, starts: Tensor, channels: Tensor,
        weights: Tensor, margins: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summed loss of pairs, laid out side by side, and sums by channel, (channels * 5,): NAMES, count.

        Args:
            ids, targets, documents, positions, starts: as of PreferenceLoss.
            channels, weights, margins: (pairs,)."""
        states = self.hidden(ids, documents, positions).flatten(0, 1)
        ends = documents.flatten().bincount(minlength=len(starts)).cumsum(0) - 1
        rewards = rewards_at(self.model, states[ends])
        chosen, rejected = rewards[0::2], rewards[1::2]  # (pairs, heads)
        ahead = chosen - rejected
        each = -logsigmoid(ahead - margins.unsqueeze(1)) + self._centering * (chosen + rejected).square()
        losses, mean = each.mean(dim=1), ahead.detach().double().mean(dim=1)
        loss = (losses * weights).sum() + self.auxiliary(ids, weights.sum())
        spread = ahead.detach().double().std(dim=1, correction=0)
        sums = torch.stack([losses.detach().double(), right(mean), mean, spread, torch.ones_like(mean)], dim=1)
        return loss, sums.new_zeros(self._channels, sums.shape[1]).index_add(0, channels, sums).flatten()


def load_reward_model(source: Source, seed: int | None = None, heads: int = 1) -> Any:
    """Load the checkpoint as a sequence classifier, on its device.

    `seed`: of a new head of `heads` outputs; None: the checkpoint has one."""
    if seed is not None:
        torch.manual_seed(seed)
    head = "" if seed is None else r"score\.weight"
    model = source.load("AutoModelForSequenceClassification", head, **({} if seed is None else {"num_labels": heads}))
    model.config.pad_token_id = source.tokenizer.pad_token_id
    return model


def start_reward_model(stage: Stage[PreferenceConfig], heads: int) -> Any:
    """Return the reward model that is trained, with a new head, and with adapters where the config has them. Raises
    InputError: the tokenizer can pad with the end of a turn alone."""
    _agree_with_transformers(stage.source)
    return stage.adapt(load_reward_model(stage.source, stage.config.seed, heads), whole=("score",))


def _agree_with_transformers(source: Source) -> None:
    """Have transformers' class, which reads the score at the last token that is no padding, read it where training
    does: at the end of the last turn. The tokenizer pads with a different token, its template writes nothing after it.

    Raises InputError: the tokenizer has no different special token."""
    tokenizer = source.tokenizer
    if tokenizer.pad_token_id in source.stop_ids:
        used = set(encode_prompt(tokenizer, [{"role": "user", "content": "a"}]))
        others = [token for token, added in tokenizer.added_tokens_decoder.items()
                  if added.special and token not in source.stop_ids]
        if not others:
            raise InputError("the tokenizer pads with the token that ends a turn, where a reward is read, and has no "
                             "different special token: start from the model with one of its own as pad_token "
                             "(tokenizer.add_special_tokens({'pad_token': '<|pad|>'}), then save it)")
        best = min(others, key=lambda token: (token in used, token != tokenizer.unk_token_id, token))
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(best)
    end_at_turn(tokenizer)


def merge_heads(model: Any) -> Any:
    """Put one head that gives the mean of all in their place; returns the model."""
    heads = model.score
    if heads.out_features > 1:
        model.score = torch.nn.Linear(heads.in_features, 1, heads.bias is not None, heads.weight.device)
        with torch.no_grad():
            for merged, each in zip(model.score.parameters(), heads.parameters(), strict=True):
                merged.copy_(each.mean(dim=0, keepdim=True))
        model.num_labels = model.config.num_labels = 1
    return model


def train_reward_model(stage: Stage[PreferenceConfig], model: Any, pairs: Sequence[Preference], centering: float,
                       evaluate: Evaluate) -> Trained:
    """Train `model`, which `start_reward_model` made, on `pairs`; `evaluate` measures a model on held-out ones."""
    config, heads = stage.config, model.config.num_labels
    pairs, batches, phase = plan(config, pairs)
    channels = channels_of(pairs)

    def wrap(model: Any) -> RewardLoss:
        return RewardLoss(model, centering, len(channels), *row_settings(phase, pairs))

    with explained(phase, model, stage.group):
        engine = make_engine(model, 0, phase, stage.group, wrap)
        whole = WholeModel(engine, lambda: start_reward_model(stage, heads))
        learner, device = Learner(stage, engine, phase, pairs, NAMES, evaluate), engine.group.device

        def part(row: Sequence[int]) -> Part:
            chosen = [pairs[at] for at in row]
            margins = torch.tensor([pair.margin for pair in chosen], device=device)
            return (*tensors(chosen, device, prompts=False), *about(chosen, channels, learner.weights, device), margins)

        return learner.train(batches, lambda _, rows: [part(row) for row in rows], whole)
