"""Loss by position in the context, and the gain of a long context over a short one."""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.statistics.intervals import ratio
from argosy.corpus.tokens.windows import position_ranges
from argosy.evidence.results.findings import METRICS, Findings
from argosy.evidence.results.heldout.documents import Documents
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import Tokens
from argosy.model.infer.scorer import Request


class Positions(Config):
    """The section `heldout.positions`."""

    length: int | None = Field(None, ge=16)
    """tokens of context (null: the model's positions, at most 4096)"""
    short: int | None = Field(None, ge=1)
    """tokens of the short context of context_gain (null: an eighth of `length`)"""

    @model_validator(mode="after")
    def _shorter(self) -> Self:
        if self.length is not None and self.short is not None and self.short * 2 > self.length:
            raise ValueError(f"short is {self.short}; allowed: at most half of length ({self.length})")
        return self

    def lengths(self, model: LanguageModel) -> tuple[int, int]:
        """Choose (length, short) for a model. Raises InputError: the model has fewer positions."""
        length = self.length or min(model.max_length, 4096)
        if length > model.max_length:
            raise InputError(f"heldout.positions.length is {length}, allowed for this model: up to {model.max_length}")
        short = self.short or max(1, length // 8)
        if short * 2 > length:
            raise InputError(f"heldout.positions.short is {short}, allowed for this model: up to {length // 2}")
        return length, short


def loss_by_position(
    model: LanguageModel, channels: Mapping[str, Documents], positions: Positions, suite: str
) -> Findings:
    """Measure `heldout/nats_at/<channel>/<from>_<to>`: mean nats of the tokens at these positions, each range as long
    as all before it, over the pieces of documents that fill the whole length (so every range scores the same pieces).

    `heldout/context_gain/<channel>`: nats a token that the second half of a piece loses when it is scored with `short`
    to 2 * `short` tokens of context instead of all of it: the same tokens both times, so that it is not the text that
    differs (Sun et al., "Do Long-Range Language Models Actually Use Long-Range Context?", 2021). Standard errors are
    over documents. Channels without a document that is long enough are named. A row a range: `from`, `to`, `loss`."""
    length, short = positions.lengths(model)
    findings = Findings()
    for name, documents in channels.items():
        pieces = [(owner, piece) for owner, tokens in enumerate(documents.tokens)
                  for piece in _pieces(model.prefix_token, tokens, length)]
        if not pieces:
            findings.leave_out(f"heldout/nats_at/{name}", f"channel without a document of {length} tokens")
            continue
        requests = [piece for _, piece in pieces]
        full = -np.array(model.scorer.token_logprobs(requests))
        special = np.array([[token in documents.special for token in tokens] for _, tokens in requests])
        full[special] = math.nan
        owners = np.array([owner for owner, _ in pieces])
        whole = ~np.isnan(np.where(special, 0.0, full)).any(axis=1)
        if not whole.all():
            findings.leave_out(f"heldout/nats_at/{name}", "loss is not a number", int((~whole).sum()))
        if whole.any():
            kept = [pieces[index][1] for index in np.flatnonzero(whole).tolist()]
            near = _short_nats(model, kept, short, documents.special)
            _add(findings, suite, name, full[whole], near, owners[whole])
    return findings


def _pieces(prefix: int, tokens: Tokens, length: int) -> list[Request]:
    """Cut pieces of `length` tokens, each after the token before it."""
    begun = (prefix, *tokens)
    return [(begun[start : start + 1], begun[start + 1 : start + 1 + length])
            for start in range(0, len(tokens) - length + 1, length)]


def _short_nats(
    model: LanguageModel, pieces: list[Request], short: int, special: frozenset[int]
) -> NDArray[np.float64]:
    """Compute [piece, position of the second half], each token with `short` to 2 * `short` - 1 tokens before it."""
    length = len(pieces[0][1])
    starts = range(length // 2, length, short)
    requests = [(tokens[start - short : start], tokens[start : start + short])
                for _, tokens in pieces for start in starts]
    parts = model.scorer.token_logprobs(requests)
    nats = -np.array([np.concatenate(parts[n * len(starts) : (n + 1) * len(starts)]) for n in range(len(pieces))])
    nats[[[token in special for token in tokens[length // 2 :]] for _, tokens in pieces]] = math.nan
    return nats


def _add(
    findings: Findings, suite: str, name: str, full: NDArray[np.float64], near: NDArray[np.float64],
    owners: NDArray[np.int64],
) -> None:
    length = full.shape[1]
    for low, high in position_ranges(length):
        nats = _by_document(full[:, low:high], owners)
        if sum(nats[1]):
            estimate = ratio(*nats)
            findings.add(f"heldout/nats_at/{name}/{low}_{high}", estimate, METRICS["heldout/nats_at/*"])
            row: dict[str, Any] = {"task": suite, "variant": f"nats_at/{name}", "id": f"{low}_{high}", "from": low,
                                   "to": high, "loss": round(estimate.value, 5)}
            findings.rows.append(row)
    gain = _by_document(near - full[:, length // 2 :], owners)
    if sum(gain[1]):
        findings.add(f"heldout/context_gain/{name}", ratio(*gain), METRICS["heldout/context_gain/*"])


def _by_document(
    values: NDArray[np.float64], owners: NDArray[np.int64]
) -> tuple[list[float], list[float]]:
    """Sum and count each document's values, over its pieces."""
    parts = [values[owners == document] for document in np.unique(owners)]
    return [float(np.nansum(part)) for part in parts], [float((~np.isnan(part)).sum()) for part in parts]
