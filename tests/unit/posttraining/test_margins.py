"""Implicit rewards of preference pairs against a plain sum of token log-probabilities."""

import copy
from typing import Any

import pytest

from argosy.posttraining.preference import Preference, implicit_margins, pair_logprobs
from tests.evaluation_fixtures import make_model


def _logprob(model: Any, ids: list[int], prompt: int) -> float:
    """The log-probability of the tokens from `prompt` on, one forward pass a pair, without padding."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return float(sum(logits[n - 1, ids[n]] for n in range(prompt, len(ids))))


def test_a_margin_is_beta_times_the_difference_of_the_answers_log_ratios() -> None:
    import torch

    model = make_model(40, 32)
    reference = copy.deepcopy(model)
    for weight in model.parameters():
        weight.data.add_(torch.randn_like(weight), alpha=0.05)
    prompts = [[1, 5, 6], [1, 7], [1, 8, 9, 10, 11]]
    answers = [([12, 13], [14]), ([15], [16, 17, 18]), ([19, 20, 21], [22, 23])]
    pairs = [Preference([], [], [], p, [*p, *c], [*p, *r]) for p, (c, r) in zip(prompts, answers, strict=True)]
    plain = [0.3 * sum(sign * (_logprob(model, ids, len(p.prompt_ids)) - _logprob(reference, ids, len(p.prompt_ids)))
                       for sign, ids in ((1, p.chosen_ids), (-1, p.rejected_ids))) for p in pairs]
    ours, theirs = (pair_logprobs(each, pairs, 0, batch_size=2) for each in (model, reference))
    assert implicit_margins(ours, theirs, 0.3) == pytest.approx(plain, abs=1e-5)
