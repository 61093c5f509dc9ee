"""Held-out pairs: how often the better answer is ahead, by how much, and how well that tells the probability."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from argosy.models.logprobs import answer_logprobs, by_length, pad_right
from argosy.posttraining.preferences.examples import Preference, channels_of
from argosy.posttraining.preferences.methods import Answers, Method, Settings

_BINS = 10


def pair_answers(model: Any, pairs: Sequence[Preference], pad_id: int, batch_size: int,
                 before: tuple[Answers, Answers] | None = None) -> tuple[Answers, Answers]:
    """Return the chosen and the rejected answers of pairs under a causal model; `before`: under the reference."""
    sides = []
    for place in (0, 1):
        rows = [pair.sides[place] for pair in pairs]
        found = answer_logprobs(model, [row[:1] for row in rows], [row[1:] for row in rows], pad_id, batch_size)
        answers = [each[len(pair.prompt_ids) - 1 :] for pair, each in zip(pairs, found, strict=True)]
        own = torch.stack([each.sum() for each in answers])
        sides.append(Answers(own, before[place].logprobs if before else torch.zeros_like(own),
                             torch.tensor([float(len(each)) for each in answers]),
                             torch.stack([each.mean() for each in found])))
    return sides[0], sides[1]


def method_metrics(
    method: Method, config: Settings, answers: tuple[Answers, Answers], pairs: Sequence[Preference]
) -> dict[str, float]:
    """Return `pair_metrics` of a method's implicit reward, and its mean loss of pairs (of a method of single answers:
    -log sigmoid of the margin)."""
    chosen, rejected = answers
    margins = method.reward(config, chosen) - method.reward(config, rejected)
    losses = method.paired(config, chosen, rejected) if method.paired else -logsigmoid(margins)
    return {**pair_metrics(margins, pairs), "heldout/preference_loss": float(losses.mean())}


def pair_metrics(margins: Tensor, pairs: Sequence[Preference]) -> dict[str, float]:
    """Return the part of the pairs whose better answer is ahead (one of margin 0 counts half), the mean margin, and the
    same by channel where there are several. `margins`: (pairs,)."""
    found: dict[str, float] = {}
    names = channels_of(pairs)
    chosen = {"": torch.ones(len(pairs), dtype=torch.bool)}
    if len(names) > 1:
        chosen |= {f"/{name}": torch.tensor([pair.channel == name for pair in pairs]) for name in names}
    for name, rows in chosen.items():
        found[f"heldout/preference_accuracy{name}"] = pair_accuracy(margins[rows].tolist())
        found[f"heldout/preference_margin{name}"] = float(margins[rows].mean())
    return found


def pair_accuracy(margins: Sequence[float]) -> float:
    """Return the part of the pairs whose margin (better less worse) is positive; one of exactly 0 counts half."""
    return sum(1.0 if margin > 0 else 0.5 if margin == 0 else 0.0 for margin in margins) / len(margins)


def calibration(margins: Tensor) -> dict[str, float]:
    """Return how well sigmoid(margin) tells the probability that the answer with the higher reward is the better one.

    `margins`: (pairs,), better less worse. Brier's score (1950) is the mean squared error of that probability; the
    expected calibration error (Guo et al. 2017) is the mean, over ten bins of equal width by their pairs, of the
    distance between probability and share."""
    sure = margins.abs().sigmoid().double()
    right = (margins > 0).double() + 0.5 * (margins == 0)
    bins = ((sure - 0.5) * 2 * _BINS).long().clamp(max=_BINS - 1)
    gaps = torch.zeros(_BINS, dtype=torch.float64).index_add(0, bins, right - sure)
    return {"heldout/preference_brier": float((right - sure).square().mean()),
            "heldout/preference_calibration_error": float(gaps.abs().sum() / len(margins))}


def rewards_of(model: Any, conversations: Sequence[Sequence[int]], pad_id: int, batch_size: int) -> list[float]:
    """Return the reward of each conversation, given as token ids up to its end-of-turn token: the mean over heads."""
    rewards = [0.0] * len(conversations)
    model.eval()
    with torch.no_grad():
        for batch in by_length(conversations, batch_size):
            rows = [conversations[index] for index in batch]
            ids = pad_right(rows, pad_id).to(model.device)
            mask = pad_right([[1] * len(row) for row in rows], 0).to(model.device)
            values = model(input_ids=ids, attention_mask=mask).logits.mean(dim=1).tolist()
            for index, value in zip(batch, values, strict=True):
                rewards[index] = value
    return rewards


def reward_metrics(model: Any, pairs: Sequence[Preference], pad_id: int, batch_size: int) -> dict[str, float]:
    """Return `pair_metrics` of a reward model, and its `calibration`."""
    chosen, rejected = (torch.tensor(rewards_of(model, [pair.sides[place] for pair in pairs], pad_id, batch_size))
                        for place in (0, 1))
    return pair_metrics(chosen - rejected, pairs) | calibration(chosen - rejected)
