"""Log-probabilities of token continuations under a causal model, with shared beginnings computed once.

What is asked is planned (argosy.evaluation.planning), computed (forward) and read here. Equal requests are one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from argosy.evaluation.forward import Forward
from argosy.evaluation.planning import Limits, plan
from argosy.evaluation.rows import Grid, Tokens, Wanted

if TYPE_CHECKING:
    import torch

_ATTENTION = 8.0  # how much slower attention's arithmetic is than that of matrices of weights, on a CPU


@dataclass(frozen=True)
class Score:
    """Of one continuation: the sum of its tokens' log-probabilities (nats; NaN when the model gave none),
    whether each token was the most probable one, and how many tokens it has."""

    logprob: float
    greedy: bool
    tokens: int


@dataclass(frozen=True)
class Scored:
    """Of one continuation, a value a token: log-probability (nats), and whether it was the most probable one."""

    logprobs: NDArray[np.float64]
    greedy: NDArray[np.bool_]

    @property
    def score(self) -> Score:
        """Of all of them."""
        return Score(float(self.logprobs.sum()), bool(self.greedy.all()), len(self.logprobs))


NOT_SCORED = Score(math.nan, False, 0)
Request = tuple[Tokens, Tokens]  # context, continuation


class Scorer:
    """Scores (context, continuation) token pairs with a Hugging Face causal model in evaluation mode.

    Args:
        model: AutoModelForCausalLM's; on its device.
        max_length: positions that the model has. A longer pair loses tokens at its left, as in lm-eval.
        batch_tokens: tokens (padding included) of one forward pass; fewer where memory does not suffice.
    """

    def __init__(self, model: Any, max_length: int, batch_tokens: int = 8192) -> None:
        self.max_length = max_length
        self.batch_tokens = batch_tokens
        self.forward = Forward(model)
        self.forward.find_out()
        self._pair = _pair_cost(model)

    @property
    def branching(self) -> bool:
        """Whether sequences that share a beginning are computed together."""
        return self.forward.branching

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """A score for each request, in their order.

        A pair that cannot be scored (no tokens in one half, or a continuation beyond `max_length`) has the score
        NOT_SCORED, so that one of thousands does not stop the others.
        """
        return [NOT_SCORED if found is None else found.score for found in self._scored(requests)]

    def token_logprobs(self, requests: Sequence[Request]) -> list[NDArray[np.float64]]:
        """Log-probability (nats) of each token of each continuation; NaN where a pair cannot be scored."""
        return [
            np.full(len(continuation), math.nan) if found is None else found.logprobs
            for found, (_, continuation) in zip(self._scored(requests), requests, strict=True)
        ]

    def next_token(self, contexts: Sequence[Tokens]) -> Iterator[tuple[int, torch.Tensor]]:
        """(index of the context, log-probabilities of the next token [vocabulary], float32), in any order."""
        import torch

        def read(logits: torch.Tensor, laid: Grid) -> list[torch.Tensor]:
            values = torch.log_softmax(logits.float(), dim=-1)
            return [values[int(places[-1])] for places in laid.places]

        cut = [context[-self.max_length :] for context in contexts]
        owners = _owners([Wanted(context, len(context) - 1, ()) for context in cut if context])
        wanted = list(owners)
        for batch in plan(wanted, self._limits()):
            rows = [[wanted[index] for index in row] for row in batch.rows]
            found = iter(self.forward.run(batch.prefix, rows, read))
            for asked in (each for row in rows for each in row):
                values = next(found)
                for index in owners[asked]:
                    yield index, values

    def _scored(self, requests: Sequence[Request]) -> list[Scored | None]:
        found: list[Scored | None] = [None] * len(requests)
        owners: dict[Wanted, list[int]] = {}
        for index, request in enumerate(requests):
            if (asked := self._wanted(*request)) is not None:
                owners.setdefault(asked, []).append(index)
        wanted = list(owners)
        for batch in plan(wanted, self._limits()):
            rows = [[wanted[index] for index in row] for row in batch.rows]
            asked_of = [each for row in rows for each in row]
            for asked, scored in zip(asked_of, self.compute(batch.prefix, rows), strict=True):
                for index in owners[asked]:
                    found[index] = scored
        return found

    def compute(self, prefix: Tokens, rows: Sequence[Sequence[Wanted]]) -> list[Scored]:
        """Scores of a batch's sequences, row after row. What is not a number spreads over a whole row, also to where
        attention is zero, so the sequences of such a row are computed apart."""
        found = self._computed(prefix, rows)
        start = 0
        for row in rows:
            end = start + len(row)
            if len(row) > 1 and any(np.isnan(each.logprobs).any() for each in found[start:end]):
                found[start:end] = self._computed((), [[each] for each in row])
            start = end
        return found

    def _computed(self, prefix: Tokens, rows: Sequence[Sequence[Wanted]]) -> list[Scored]:
        return self.forward.run(prefix, rows, _Reader([each.targets for row in rows for each in row]))

    def _wanted(self, context: Tokens, continuation: Tokens) -> Wanted | None:
        if not context or not 0 < len(continuation) <= self.max_length:
            return None
        context = context[max(0, len(context) + len(continuation) - self.max_length - 1) :]
        return Wanted(context + continuation[:-1], len(context) - 1, continuation)

    def _limits(self) -> Limits:
        pair = self._pair if self.branching else None
        return Limits(self.batch_tokens, self.max_length, self.forward.vocabulary, pair)


def _owners(wanted: Sequence[Wanted]) -> dict[Wanted, list[int]]:
    found: dict[Wanted, list[int]] = {}
    for index, each in enumerate(wanted):
        found.setdefault(each, []).append(index)
    return found


class _Reader:
    """Reads the logits of sequences in their order. Where memory did not suffice for that, they come again in parts."""

    def __init__(self, targets: Sequence[Tokens]) -> None:
        self._targets = targets
        self._done = 0

    def __call__(self, logits: torch.Tensor, laid: Grid) -> list[Scored]:
        found = _read(logits, laid, self._targets[self._done : self._done + len(laid.places)])
        self._done += len(found)
        return found


def _read(logits: torch.Tensor, laid: Grid, asked: Sequence[Tokens]) -> list[Scored]:
    """Scores of sequences' targets from their logits [output, vocabulary]."""
    import torch

    outputs = torch.from_numpy(np.concatenate(laid.places)).to(logits.device)
    ids = torch.tensor([token for each in asked for token in each], device=logits.device)
    values = logits.float()
    chosen = values[outputs, ids] - torch.logsumexp(values, dim=-1)[outputs]
    greedy = values.argmax(dim=-1)[outputs] == ids
    bounds = np.cumsum([len(each) for each in asked])[:-1]
    logprobs = np.split(chosen.double().cpu().numpy(), bounds)
    best = np.split(greedy.cpu().numpy(), bounds)
    return [Scored(*each) for each in zip(logprobs, best, strict=True)]


def _pair_cost(model: Any) -> float:
    """Work of one token's attention to another, in tokens computed: a token takes two operations a weight of the
    layers, a pair four a hidden unit and layer."""
    config = model.config.get_text_config()
    outer = {id(layer): layer for layer in (model.get_input_embeddings(), model.get_output_embeddings()) if layer}
    inner = sum(p.numel() for p in model.parameters()) - sum(layer.weight.numel() for layer in outer.values())
    layers, hidden = getattr(config, "num_hidden_layers", 1), getattr(config, "hidden_size", 1)
    return float(_ATTENTION * 2 * hidden * layers / max(1, inner))
