"""Log-probabilities read block by block of the vocabulary, against torch's log_softmax of all of it."""

import math
from typing import Any

import pytest
import torch

from argosy.model.infer import logprobs
from argosy.model.infer.logprobs import log_softmax, parts, target_logprobs


def read(head: Any, hidden: Any, at: list[int], token: list[int]) -> tuple[list[float], list[bool]]:
    """As the scorer reads the parts."""
    logprobs, first = [math.nan] * len(at), [False] * len(at)
    for here, blocks in parts(head, hidden, head.out_features):
        which = [n for n, row in enumerate(at) if row in here]
        places = torch.tensor([at[n] - here.start for n in which], dtype=torch.long)
        found, greedy = target_logprobs(blocks, places, torch.tensor([token[n] for n in which], dtype=torch.long))
        for n, value, is_first in zip(which, found.tolist(), greedy.tolist(), strict=True):
            logprobs[n], first[n] = value, is_first
    return logprobs, first


@pytest.fixture(params=[(3, 7), (3, 1000), (1000, 7), (1000, 10**6)])
def small(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few positions and few tokens at a time, so that there are many parts, the last of them smaller."""
    positions, block = request.param
    monkeypatch.setattr(logprobs, "_POSITIONS", positions)
    monkeypatch.setattr(logprobs, "_BLOCK", block)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_blocks_give_what_log_softmax_gives(bias: bool, dtype: str) -> None:
    torch.manual_seed(3)
    head = torch.nn.Linear(16, 101, bias=bias, dtype=getattr(torch, dtype))
    hidden = 4 * torch.randn(11, 16, dtype=head.weight.dtype)
    hidden[4] += 300 * head.weight[57].detach()  # one token has nearly all of the probability
    at = [row for row in range(11) for _ in range(4)]
    with torch.no_grad():
        expected = torch.log_softmax(head(hidden).float(), -1)
        token = torch.randint(0, 101, (len(at),)).tolist()
        token[::4] = expected.argmax(-1).tolist()
        logprobs, first = read(head, hidden, at, token)
        whole = torch.cat([log_softmax(blocks) for _, blocks in parts(head, hidden, 101)])
    likeliest = expected.argmax(-1)
    assert logprobs == pytest.approx([float(expected[row, t]) for row, t in zip(at, token, strict=True)], abs=1e-4)
    assert first == [int(likeliest[row]) == t for row, t in zip(at, token, strict=True)]
    assert torch.allclose(whole, expected, atol=1e-4)


@pytest.mark.usefixtures("small")
def test_tokens_that_cannot_be_or_are_not_there_and_what_is_not_a_number() -> None:
    """A vocabulary padded with -inf has blocks without any probability; a NaN stays in its own row; a token that was
    added to a tokenizer and not to the model has no number, beside those of the others."""
    head = torch.nn.Linear(4, 40)
    with torch.no_grad():
        head.bias[:20] = head.bias[33:] = -math.inf
        hidden = torch.randn(3, 4)
        hidden[1] = math.nan
        expected = torch.log_softmax(head(hidden), -1)
        best = int(expected[2].argmax())
        logprobs, first = read(head, hidden, [0, 0, 1, 2, 0, 2], [25, 3, 25, best, 40, 10**6])
    assert logprobs[:2] == [pytest.approx(float(expected[0, 25]), abs=1e-5), -math.inf]
    assert logprobs[3] == pytest.approx(float(expected[2, best]), abs=1e-5)
    assert [math.isnan(logprobs[at]) for at in (2, 4, 5)] == [True] * 3
    assert first[2:] == [False, True, False, False]


def test_a_layer_that_does_more_is_asked_whole() -> None:
    """A subclass or a hook may change the logits: its own forward pass is what counts."""
    class Halved(torch.nn.Linear):
        def forward(self, hidden: Any) -> Any:
            return super().forward(hidden) / 2

    hidden = torch.randn(5, 8)
    head, hooked = Halved(8, 30), torch.nn.Linear(8, 30)
    hooked.register_forward_hook(lambda _, __, logits: logits * 3)
    with torch.no_grad():
        for layer in (head, hooked):
            found, _ = read(layer, hidden, [0, 4], [7, 29])
            expected = torch.log_softmax(layer(hidden), -1)
            assert found == pytest.approx([float(expected[0, 7]), float(expected[4, 29])], abs=1e-5)
