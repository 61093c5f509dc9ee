"""Log-probabilities without all logits equal torch's own, with their gradients."""

import pytest
import torch

from argosy.corpus.tokens.windows import IGNORED
from argosy.model.train.layers.loss import linear_logprobs


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_entropies_and_gradients_equal_torchs(temperature: float) -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(600, 16, requires_grad=True), torch.randn(50, 16, requires_grad=True)
    targets = torch.randint(0, 50, (600,))
    targets[::7] = IGNORED
    share = torch.randn(600)
    found, entropies = linear_logprobs(hidden, weight, targets, temperature)
    ours = torch.autograd.grad((found * share).sum(), (hidden, weight))

    every = (hidden @ weight.T / temperature).log_softmax(dim=1)
    scored = targets != IGNORED
    expected = every.gather(1, targets.clamp(min=0)[:, None])[:, 0] * scored
    theirs = torch.autograd.grad((expected * share).sum(), (hidden, weight), retain_graph=True)
    assert torch.allclose(found, expected, atol=1e-5)
    assert torch.allclose(entropies, -(every.exp() * every).sum(dim=1) * scored, atol=1e-5)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)
