"""The loss of preferences as a module around the policy: what an engine trains."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from argosy.corpus.tokens.windows import IGNORED
from argosy.model.post.preferences.examples import Example, Feedback
from argosy.model.post.preferences.methods import Answers, Method, SingleMethod
from argosy.model.train.layers.attention import Choice
from argosy.model.train.layers.linear_logprobs import linear_logprobs
from argosy.model.train.layers.packed import PackedModel, lay_out, sum_by_sequence

_ROUNDING = 1e-6  # of a reward
_ROUNDED = 2.0**-22  # share of sums of float32 in other orders by which they may differ
SUMS = ("loss", "accuracy", "margin", "count")  # of each channel


class PreferenceLoss(PackedModel):
    """A policy whose forward gives the loss of preferences.

    Args:
        channels: number of channels that sums are of."""

    def __init__(
        self, model: Any, method: Method, channels: int, dtype: torch.dtype, length: int, attention: Choice = "auto",
    ) -> None:
        super().__init__(model, dtype, length, attention)
        self._method, self._channels = method, channels

    def forward(
        self, ids: Tensor, targets: Tensor, documents: Tensor, positions: Tensor, starts: Tensor,
        reference: Tensor | None = None, channels: Tensor | None = None, weights: Tensor | None = None,
        usual: Tensor | None = None, good: Tensor | None = None, divergence: Tensor | None = None,
    ) -> Any:
        """Return the summed loss of the examples laid out in a row, and sums by channel, (channels * 4,): SUMS.

        Args:
            ids, targets, documents, positions: as `Packed`; of pairs the chosen side, then the rejected one.
            starts: (answers,), tokens of each prompt.
            reference: (answers,), log-probabilities under the reference; None: return the log-probabilities of the
                answers, (answers,), instead.
            channels: (examples,), numbers of their channels.
            weights: (examples,), what their losses are multiplied by.
            usual: (), mean number of a whole update's scored tokens of a first side, by which likelihoods are divided:
                each token of the update weighs the same.
            good, divergence: of a method of single answers."""
        answers = self._answers(ids, targets, documents, positions, starts, reference, usual)
        if channels is None or weights is None:
            return answers.logprobs
        compared: tuple[Answers, ...] = (answers,)
        if isinstance(self._method, SingleMethod):
            assert good is not None
            assert divergence is not None
            losses = self._method.single_losses(answers, good, divergence)
            margins = torch.where(good, 1.0, -1.0) * (self._method.reward(answers) - self._method.beta * divergence)
        else:
            compared = chosen, rejected = sides_of(answers, len(starts))
            losses = self._method.total(chosen, rejected)
            margins = self._method.reward(chosen) - self._method.reward(rejected)
        loss = (losses * weights).sum() + self.auxiliary(ids, weights.sum())
        detached, ahead = losses.detach().double(), margins.detach().double()
        sums = torch.stack([detached, right(ahead, self._rounding(compared)), ahead, torch.ones_like(ahead)], dim=1)
        by_channel = sums.new_zeros(self._channels, len(SUMS)).index_add(0, channels, sums)
        return loss, by_channel.flatten()

    def _rounding(self, compared: Sequence[Answers]) -> Tensor:
        """Return by how much margins of answers may differ by rounding alone, (examples,)."""
        nats = torch.stack([each.logprobs.detach().abs() + each.reference.abs() for each in compared]).sum(dim=0)
        return self._method.beta * _ROUNDED * nats

    def _answers(
        self, ids: Tensor, targets: Tensor, documents: Tensor, positions: Tensor, starts: Tensor,
        reference: Tensor | None, usual: Tensor | None,
    ) -> Answers:
        places = (targets.flatten() != IGNORED).nonzero().squeeze(1)  # no logits for the others
        hidden = self.hidden(ids, documents, positions).flatten(0, 1)[places]
        weight = self.model.get_output_embeddings().weight
        found, _ = linear_logprobs(hidden, weight, targets.flatten()[places], dtype=self._dtype)
        numbers, count = documents.flatten()[places], len(starts)
        answered = (positions.flatten()[places] + 1 >= starts[numbers]).float()
        whole = found.new_zeros(count)
        if self._method.prompts and usual is not None:
            whole = sum_by_sequence(found, numbers, count) / usual
        return Answers(sum_by_sequence(found * answered, numbers, count), found.new_zeros(count)
                       if reference is None else reference, sum_by_sequence(answered, numbers, count), whole)


def rewards_at(model: Any, states: Tensor) -> Tensor:
    """Return what a sequence classifier says of last hidden states, (states, heads), float32."""
    return model.score(states.to(model.score.weight.dtype)).float()  # type: ignore[no-any-return]


def right(margins: Tensor, rounding: Tensor | None = None) -> Tensor:
    """Return 1 where a margin is positive, and a half where rounding alone keeps it from 0, float64.

    `rounding`: what that makes of each margin at most, where it may be more than that of a few numbers."""
    most = torch.full_like(margins, _ROUNDING) if rounding is None else rounding.to(margins).clamp(min=_ROUNDING)
    return (margins > most).double() + 0.5 * (margins.abs() <= most)


def sides_of(answers: Answers, count: int) -> tuple[Answers, Answers]:
    """Return the chosen and the rejected of the first `count` answers, which are of pairs side by side."""
    fields = (answers.logprobs, answers.reference, answers.tokens, answers.likelihood)
    return Answers(*(each[0:count:2] for each in fields)), Answers(*(each[1:count:2] for each in fields))


def tensors(examples: Sequence[Example], device: Any, *, prompts: bool) -> tuple[Tensor, ...]:
    """Lay examples end to end: the first five arguments of PreferenceLoss.

    `prompts`: whether the prompts' tokens of the first side are scored too."""
    sequences, counted, starts = [], [], []
    for example in examples:
        begin = len(example.prompt_ids)
        for number, ids in enumerate(example.sides):
            sequences.append(ids)
            counted.append([(prompts and number == 0) or at >= begin for at in range(len(ids))])
            starts.append(begin)
    return (*lay_out(sequences, counted, device), torch.tensor(starts, device=device))


def about(examples: Sequence[Example], names: Sequence[str], weights: Sequence[float], device: Any) -> list[Tensor]:
    """Return the channels of examples, (examples,), and their weights, (examples,), float32."""
    channels = torch.tensor([names.index(example.channel) for example in examples], device=device)
    return [channels, torch.tensor(weights, dtype=torch.float32, device=device)[channels]]


def labels(examples: Sequence[Example], device: Any) -> Tensor:
    """Return whether each answer is good, (examples,)."""
    return torch.tensor([isinstance(each, Feedback) and each.good for each in examples], device=device)
