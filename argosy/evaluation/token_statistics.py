"""What a model gave each token of a text: log-probability, whether it was the likeliest, its place among all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.planning import Limits, plan
from argosy.evaluation.rows import Grid, Tokens, Wanted

if TYPE_CHECKING:
    import torch

_ROWS = 512  # outputs whose distributions are in memory in double precision


@dataclass(frozen=True)
class TokenStatistics:
    """One value a token but the first: log-probability (nats), `greedy` (it was the likeliest), and `z`: the
    log-probability less its mean under the model's own distribution, over its standard deviation there (Min-K%++)."""

    logprobs: NDArray[np.float64]
    greedy: NDArray[np.bool_]
    z: NDArray[np.float64]


def token_statistics(model: LanguageModel, sequences: Sequence[Tokens]) -> list[TokenStatistics]:
    """Of each sequence, at least two tokens, its first being given."""
    wanted = [Wanted(tokens[:-1], 0, tokens[1:]) for tokens in sequences]
    owners: dict[Wanted, list[int]] = {}
    for index, each in enumerate(wanted):
        owners.setdefault(each, []).append(index)
    distinct = list(owners)
    forward = model.scorer.forward
    found: dict[int, TokenStatistics] = {}
    for batch in plan(distinct, Limits(model.scorer.batch_tokens, model.max_length, forward.vocabulary, None)):
        rows = [[distinct[index] for index in row] for row in batch.rows]
        asked = [each for row in rows for each in row]
        for each, values in zip(asked, forward.run(batch.prefix, rows, _Reader(asked)), strict=True):
            found.update(dict.fromkeys(owners[each], values))
    return [found[index] for index in range(len(sequences))]


class _Reader:
    """Reads the logits of sequences in their order; what failed (memory) is read again in parts."""

    def __init__(self, asked: Sequence[Wanted]) -> None:
        self._asked = asked
        self._done = 0

    def __call__(self, logits: torch.Tensor, laid: Grid) -> list[TokenStatistics]:
        own = self._asked[self._done : self._done + len(laid.places)]
        found = [_read(logits, places, each.targets) for places, each in zip(laid.places, own, strict=True)]
        self._done += len(found)
        return found


def _read(logits: torch.Tensor, places: NDArray[np.int64], targets: Tokens) -> TokenStatistics:
    import torch

    parts: list[NDArray[np.float64]] = []
    for start in range(0, len(targets), _ROWS):
        own = logits[torch.from_numpy(places[start : start + _ROWS]).to(logits.device)].double()
        ids = torch.tensor(targets[start : start + _ROWS], device=logits.device)
        logs = own - own.logsumexp(-1, keepdim=True)
        chosen = logs.gather(1, ids[:, None])[:, 0]
        probs = logs.exp()
        centre = (probs * logs).sum(-1)
        spread = ((probs * logs.square()).sum(-1) - centre.square()).clamp_min(1e-12).sqrt()
        greedy = (own.argmax(-1) == ids).double()
        parts.append(torch.stack([chosen, greedy, (chosen - centre) / spread]).cpu().numpy())
    logprobs, greedy_all, z = np.concatenate(parts, axis=1)
    return TokenStatistics(logprobs, greedy_all > 0, z)
