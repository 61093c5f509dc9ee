"""Held-out examples: how often the better answer is ahead, by how much, and how well that tells the probability."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from argosy.core.statistics.intervals import auc, mean
from argosy.core.step.contract import counted
from argosy.model.infer.logprobs import answer_logprobs, by_length, pad_right
from argosy.model.post.preferences.examples import Example, Feedback, Preference, channels_of
from argosy.model.post.preferences.methods import Answers, Method
from argosy.model.post.preferences.objective import rewards_at, right, sides_of

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
        """Return the log-probabilities of all sides, of the pairs first."""
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
            ids = pad_right(rows, pad_id).to(model.device)
            mask = pad_right([[1] * len(row) for row in rows], 0).to(model.device)
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
