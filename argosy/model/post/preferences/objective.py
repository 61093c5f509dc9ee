"""The loss of preferences as a module around the policy, which an engine trains; and held-out examples: how often the
better answer is ahead, by how much, and how well that tells the probability."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from argosy.core.statistics.intervals import auc, mean
from argosy.core.step.contract import counted
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.infer.logprobs import answer_logprobs, by_length, padded
from argosy.model.post.preferences.examples import Example, Feedback, Preference, channels_of
from argosy.model.post.preferences.methods import Answers, Method, SingleMethod
from argosy.model.train.layers.attention import Choice
from argosy.model.train.layers.loss import linear_logprobs
from argosy.model.train.layers.packed import PackedModel, lay_out, sum_by_sequence

_ROUNDING = 1e-6  # of a reward
_ROUNDED = 2.0**-22  # share of sums of float32 in other orders by which they may differ
SUMS = ("loss", "accuracy", "margin", "count")  # of each channel


class PreferenceLoss(PackedModel):
    """A policy whose forward gives the loss of preferences."""

    def __init__(
        self, model: Any, method: Method, channels: int, dtype: torch.dtype, length: int, attention: Choice = "auto",
    ) -> None:
        super().__init__(model, dtype, length, attention)
        self._method, self._channels = method, channels

    def forward(
        self, ids: Tensor, targets: Tensor, documents: Tensor, positions: Tensor, starts: Tensor,
        reference: Tensor | None = None, channels: Tensor | None = None, weights: Tensor | None = None,
        usual: Tensor | None = None, good: Tensor | None = None, divergence: Tensor | None = None) -> Any:
        """Return the summed loss of the examples laid out in a row, and sums by channel, (channels * 4,): SUMS.

        Args:
            ids, targets, documents, positions: as `Packed`; of pairs the chosen side, then the rejected one.
            starts: (answers,), tokens of each prompt.
            reference: (answers,), log-probabilities under the reference; None: return the answers' own, (answers,).
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
        nats = torch.stack([each.logprobs.detach().abs() + each.reference.abs() for each in compared]).sum(dim=0)
        rounding = self._method.beta * _ROUNDED * nats  # by how much margins may differ by it alone
        sums = torch.stack([detached, right(ahead, rounding), ahead, torch.ones_like(ahead)], dim=1)
        by_channel = sums.new_zeros(self._channels, len(SUMS)).index_add(0, channels, sums)
        return loss, by_channel.flatten()

    def _answers(
        self, ids: Tensor, targets: Tensor, documents: Tensor, positions: Tensor, starts: Tensor,
        reference: Tensor | None, usual: Tensor | None) -> Answers:
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
    return torch.tensor([isinstance(each, Feedback) and each.good for each in examples], device=device)


_BINS = 10


class HeldOut:
    """Held-out examples under a method. The reference is the first model that it is called with."""

    def __init__(self, method: Method, examples: Sequence[Example], pad_id: int, size: int) -> None:
        self._method, self._pad_id, self._size = method, pad_id, size
        self._pairs = [each for each in examples if isinstance(each, Preference)]
        self._feedback = [each for each in examples if isinstance(each, Feedback)]
        self._reference: Tensor | None = None

    def __call__(self, model: Any) -> dict[str, float]:
        """Return `pair_metrics` of the method's implicit reward, with its losses of pairs (of a method of single
        answers: -log sigmoid of the margin); and where there are answers by themselves, the probability that a good one
        has a higher reward than a bad one, with its standard error."""
        answers = self._answers(model)
        rewards, count = self._method.reward(answers), 2 * len(self._pairs)
        found: dict[str, float] = {}
        if count:
            margins = rewards[0:count:2] - rewards[1:count:2]
            chosen, rejected = sides_of(answers, count)
            losses = -logsigmoid(margins) if self._method.single else self._method.total(chosen, rejected)
            found |= pair_metrics(margins, self._pairs, {"loss": losses})
        good, bad = ([value for value, each in zip(rewards[count:].tolist(), self._feedback, strict=True)
                      if each.good is wanted] for wanted in (True, False))
        if len(good) > 1 and len(bad) > 1:
            estimate = auc(good, bad)
            found |= {"heldout/feedback_auc": estimate.value, "heldout/feedback_auc_stderr": estimate.stderr}
        return found

    def _answers(self, model: Any) -> Answers:
        examples: list[Example] = [*self._pairs, *self._feedback]
        rows = [(len(each.prompt_ids), ids) for each in examples for ids in each.sides]
        found = answer_logprobs(model, [ids[:1] for _, ids in rows], [ids[1:] for _, ids in rows], self._pad_id,
                                self._size)
        own = torch.stack([each[start - 1 :].sum() for (start, _), each in zip(rows, found, strict=True)])
        if self._reference is None:
            self._reference = own if self._method.reference else torch.zeros_like(own)
        return Answers(own, self._reference, torch.tensor([float(len(ids) - start) for start, ids in rows]),
                       torch.stack([each.mean() for each in found]))


def pair_metrics(margins: Tensor, pairs: Sequence[Preference], others: Mapping[str, Tensor]) -> dict[str, float]:
    """Return as `heldout/preference_<name>` the part of the pairs whose better answer is ahead (accuracy; a margin of 0
    counts half), its standard error, and the means of the margins and of `others`; where there are several channels, by
    each of them too. Tensors are (pairs,)."""
    table = {"accuracy": right(margins), "margin": margins, **others}
    channels = channels_of(pairs)
    groups = {"": torch.ones(len(pairs), dtype=torch.bool)}
    if len(channels) > 1:
        groups |= {f"/{name}": torch.tensor([pair.channel == name for pair in pairs]) for name in channels}
    found: dict[str, float] = {}
    for name, rows in groups.items():
        found |= {f"heldout/preference_{what}{name}": float(values[rows].mean()) for what, values in table.items()}
        if len(chosen := table["accuracy"][rows].tolist()) > 1:
            found[f"heldout/preference_accuracy_stderr{name}"] = mean(chosen).stderr
    return found


def calibration(margins: Tensor) -> dict[str, float]:
    """Return how well sigmoid(margin) tells the probability that the answer with the higher reward is the better one.

    `margins`: (pairs,), better less worse. Brier's score (1950) is the mean squared error of that probability; the
    expected calibration error (Guo et al. 2017) is the mean, over ten bins of equal width by their pairs, of the
    distance between probability and share."""
    sure = margins.abs().sigmoid().double()
    ahead = right(margins)
    bins = ((sure - 0.5) * 2 * _BINS).long().clamp(max=_BINS - 1)
    gaps = torch.zeros(_BINS, dtype=torch.float64).index_add(0, bins, ahead - sure)
    return {"heldout/preference_brier": float((ahead - sure).square().mean()),
            "heldout/preference_calibration_error": float(gaps.abs().sum() / len(margins))}


def rewards_of(
    model: Any, conversations: Sequence[Sequence[int]], pad_id: int, batch_size: int, caution: float = 0.0
) -> list[float]:
    """Return the reward of each conversation, given as token ids up to its end-of-turn token: the mean over heads, less
    `caution` times their standard deviation (Coste et al. 2024, "Reward Model Ensembles", penalise its square).

    It is read at the last token, which may be the padding token too."""
    rewards = [0.0] * len(conversations)
    model.eval()
    with torch.no_grad():
        for batch in counted(by_length(conversations, batch_size), len(conversations), "rewards"):
            rows = [conversations[index] for index in batch]
            ids, mask = padded(rows, pad_id, model.device)
            states = model.get_decoder()(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
            heads = rewards_at(model, states[range(len(rows)), [len(row) - 1 for row in rows]])
            values = heads.mean(dim=1) - caution * heads.std(dim=1, correction=0)
            for index, value in zip(batch, values.tolist(), strict=True):
                rewards[index] = value
    return rewards


def reward_metrics(model: Any, pairs: Sequence[Preference], pad_id: int, batch_size: int) -> dict[str, float]:
    """Return `pair_metrics` of a reward model, and its `calibration`."""
    chosen, rejected = (torch.tensor(rewards_of(model, [pair.sides[place] for pair in pairs], pad_id, batch_size))
                        for place in (0, 1))
    margins = chosen - rejected
    return pair_metrics(margins, pairs, {"loss": -logsigmoid(margins)}) | calibration(margins)
