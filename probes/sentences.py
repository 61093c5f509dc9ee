"""Whole sentences that share a beginning, held against each other."""

from __future__ import annotations

from collections.abc import Sequence

from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.rows import Tokens


def branch_scores(model: LanguageModel, groups: Sequence[Sequence[str]]) -> list[list[float]]:
    """Log-probabilities (nats) of each group's sentences, less what its sentences share.

    The tokens that all of a group begin with, each sentence being tokenised whole from the start of a document, are
    computed once and count for none: differences within a group are those of the whole sentences. NaN where a
    sentence has no number or is longer than the model.
    """
    requests: list[tuple[Tokens, Tokens]] = []
    for group in groups:
        encoded = [(model.prefix_token, *tokens) for tokens in model.encode(list(group), special=False)]
        shared = _shared(encoded)
        requests += [(tokens[:shared], tokens[shared:]) for tokens in encoded]
    scores = iter(model.scorer.score(requests))
    return [[next(scores).logprob for _ in group] for group in groups]


def _shared(group: Sequence[Tokens]) -> int:
    """How many tokens all begin with; each keeps at least one of its own."""
    first, last = min(group), max(group)  # what the first and the last in order share, all share
    most = min(len(tokens) for tokens in group) - 1
    return next((n for n in range(most) if first[n] != last[n]), most)
