"""Log-probabilities of token continuations under a causal model, with shared contexts computed once.

The continuations of one context (the options of a question) are branches of one row (argosy.evaluation.rows).
Labels of one token add nothing: all come out of the context's last position. Only a row's last positions go
through the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from argosy.evaluation.rows import Row, Tokens, model_inputs

if TYPE_CHECKING:
    import torch

_SHORT_ROW = 64  # tokens of a row that may always grow
_LOGITS = 2**26  # logits of one batch: 256 MiB as float32


@dataclass(frozen=True)
class Score:
    """Of one continuation: the sum of its tokens' log-probabilities (nats; NaN when the model gave none),
    whether each token was the most probable one, and how many tokens it has."""

    logprob: float
    greedy: bool
    tokens: int


NOT_SCORED = Score(math.nan, False, 0)


class Scorer:
    """Scores (context, continuation) token pairs with a Hugging Face causal model in evaluation mode.

    Args:
        model: AutoModelForCausalLM's; on its device.
        max_length: positions that the model has. A longer pair loses tokens at its left, as in lm-eval.
        batch_tokens: tokens (padding included) of one forward pass.
    """

    def __init__(self, model: Any, max_length: int, batch_tokens: int = 8192) -> None:
        self.model = model
        self.max_length = max_length
        self.batch_tokens = batch_tokens
        self._vocabulary = int(model.config.get_text_config().vocab_size)
        self.branching = self._branches_are_exact()

    def score(self, requests: Sequence[tuple[Tokens, Tokens]]) -> list[Score]:
        """A score for each request, in their order.

        A pair that cannot be scored (no tokens in one half, or a continuation beyond `max_length`) has the score
        NOT_SCORED, so that one of thousands does not stop the others.
        """
        scores = [NOT_SCORED] * len(requests)
        for batch in self._batches(self._rows(requests)):
            logits = self._forward(batch)
            for indices, score in _read(batch, logits):
                for index in indices:
                    scores[index] = score
        return scores

    def token_logprobs(self, requests: Sequence[tuple[Tokens, Tokens]]) -> list[NDArray[np.float64]]:
        """Log-probability (nats) of each token of each continuation; NaN where a pair cannot be scored."""
        found = [np.full(len(continuation), math.nan) for _, continuation in requests]
        for batch in self._batches(self._rows(requests)):
            values, _, sizes = _chosen(batch, self._forward(batch))
            parts = iter(np.split(values, np.cumsum(sizes)[:-1]))
            for indices in (indices for row in batch for indices in row.branches.values()):
                part = next(parts)
                for index in indices:
                    found[index] = part
        return found

    def next_token(self, contexts: Sequence[Tokens]) -> Iterator[tuple[int, torch.Tensor]]:
        """(index of the context, log-probabilities of the next token [vocabulary], float32), in any order."""
        import torch

        rows = self._rows([(context, (0,)) for context in contexts])
        for batch in self._batches(rows):
            logprobs = torch.log_softmax(self._forward(batch)[:, -1].float(), dim=-1)
            for row, values in zip(batch, logprobs, strict=True):
                for index in row.branches[(0,)]:
                    yield index, values

    def _rows(self, requests: Sequence[tuple[Tokens, Tokens]]) -> list[Row]:
        rows: list[Row] = []
        current: dict[Tokens, Row] = {}  # the row of a context that still takes branches
        known: dict[tuple[Tokens, Tokens], Row] = {}
        for index, (context, continuation) in enumerate(requests):
            if not context or not 0 < len(continuation) <= self.max_length:
                continue
            cut = max(0, len(context) + len(continuation) - self.max_length - 1)
            context = context[cut:]
            row = known.get((context, continuation)) or current.get(context)
            if row is None or not (continuation in row.branches or self._fits(row, continuation)):
                row = current[context] = Row(context, {})
                rows.append(row)
            row.branches.setdefault(continuation, []).append(index)
            known[context, continuation] = row
        return rows

    def _fits(self, row: Row, continuation: Tokens) -> bool:
        """Whether another branch saves work: attention is over the whole row, so branches that are much longer
        than their context are better apart."""
        if row.keep == len(continuation) == 1:
            return True  # a token more out of the same logits
        after = row.length + len(continuation) - 1
        return self.branching and after <= max(3 * len(row.context), _SHORT_ROW)

    def _batches(self, rows: list[Row]) -> Iterator[list[Row]]:
        """Rows of similar lengths together, longest first; the order is a function of the requests alone."""
        batch: list[Row] = []
        keep = 0
        for row in sorted(rows, key=lambda row: (-row.length, row.context)):
            keep_with = max(keep, row.keep)
            width = batch[0].length if batch else row.length
            n = len(batch) + 1
            if batch and (n * width > self.batch_tokens or n * keep_with * self._vocabulary > _LOGITS):
                yield batch
                batch, keep_with = [], row.keep
            batch.append(row)
            keep = keep_with
        if batch:
            yield batch

    def _forward(self, rows: Sequence[Row]) -> torch.Tensor:
        """Logits [row, keep, vocabulary] of the last positions."""
        import torch

        inputs = model_inputs(rows, self.model.dtype, self.model.device)
        keep = max(row.keep for row in rows)
        with torch.inference_mode():
            logits: torch.Tensor = self.model(**inputs, use_cache=False, logits_to_keep=keep).logits
        return logits

    def _branches_are_exact(self) -> bool:
        """Whether a row with branches gives what separate rows give: not so for models whose attention is not
        by this mask (sliding windows, state spaces). Those are scored a request a row."""
        context, branches = (1, 2, 3, 4), ((5, 6, 7), (6, 5, 8), (7, 8, 5))
        wrapped = [tuple(t % self._vocabulary for t in tokens) for tokens in (context, *branches)]
        requests = [(wrapped[0], branch) for branch in wrapped[1:]]
        self.branching = False
        apart = [score.logprob for score in self.score(requests)]
        self.branching = True
        try:
            together = [score.logprob for score in self.score(requests)]
        except (RuntimeError, ValueError, TypeError, IndexError):
            return False
        tolerance = 1e-3 if "32" in str(self.model.dtype) else 0.1
        return bool(np.allclose(apart, together, atol=tolerance, equal_nan=True))


def _read(rows: Sequence[Row], logits: torch.Tensor) -> Iterator[tuple[list[int], Score]]:
    """Scores of all branches of a batch from its logits [row, keep, vocabulary]."""
    chosen, greedy, sizes = _chosen(rows, logits)
    starts = np.cumsum([0, *sizes[:-1]])
    sums = np.add.reduceat(chosen, starts)
    best = np.logical_and.reduceat(greedy, starts)
    branches = [(branch, indices) for row in rows for branch, indices in row.branches.items()]
    for (branch, indices), total, greedy_all in zip(branches, sums, best, strict=True):
        yield indices, Score(float(total), bool(greedy_all), len(branch))


def _chosen(
    rows: Sequence[Row], logits: torch.Tensor
) -> tuple[NDArray[np.float64], NDArray[np.bool_], list[int]]:
    """Of the tokens of all branches, one branch after the other: log-probability, whether it is the most probable
    one, and how many tokens each branch has."""
    import torch

    lines: list[int] = []
    places: list[int] = []
    targets: list[int] = []
    sizes: list[int] = []
    for line, row in enumerate(rows):
        first = logits.shape[1] - row.keep
        place = first + 1
        for branch in row.branches:
            lines += [line] * len(branch)
            places += [first, *range(place, place + len(branch) - 1)]
            targets += branch
            sizes.append(len(branch))
            place += len(branch) - 1
    line_ids = torch.tensor(lines, device=logits.device)
    place_ids = torch.tensor(places, device=logits.device)
    target_ids = torch.tensor(targets, device=logits.device)
    values = logits.float()
    chosen = values[line_ids, place_ids, target_ids] - torch.logsumexp(values, dim=-1)[line_ids, place_ids]
    greedy = values.argmax(dim=-1)[line_ids, place_ids] == target_ids
    return chosen.double().cpu().numpy(), greedy.cpu().numpy(), sizes
