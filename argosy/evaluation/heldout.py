"""Held-out loss by channel, of any checkpoint on the tokenized held-out files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from argosy.config import Config
from argosy.errors import InputError
from argosy.evaluation.findings import Findings
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.rows import Tokens
from argosy.statistics.intervals import Estimate, mean
from argosy.tokens.reader import read_channels, read_index
from argosy.training.heldout import choose_documents


class Heldout(Config):
    """The `heldout` section of a suite."""

    tokens_per_channel: int = Field(20_000, ge=1)


def heldout_loss(model: LanguageModel, directory: Path, tokens_per_channel: int, suite: str = "heldout") -> Findings:
    """Loss of each channel: nats a token, perplexity and bits a byte, and `all` of them together.

    The documents that training scores (argosy.training.heldout), each alone: its text's tokens after BOS, without
    its closing EOS and the marks of a conversation's turns, long ones in windows of the model's length. Bits a byte
    divide by the text's UTF-8 bytes, so that they compare across tokenizers. Standard errors are over documents (of
    a ratio, by the delta method). A row a document, so that two checkpoints are compared document by document:
    `nats` and `tokens` of its text, its `bytes`; `id` is its number in the channel's held-out file.

    Args:
        model: what is evaluated; its tokenizer has to be the one that made the files.
        directory: a tokenize step's.
        tokens_per_channel: whole documents up to this many tokens; at least one.
        suite: what rows are named after.

    Raises:
        InputError: no held-out files, files that do not fit each other, or another tokenizer's.
    """
    _check_vocabulary(model, directory)
    findings = Findings()
    every: list[NDArray[np.float64]] = []
    for name, channel in read_channels(directory, "heldout").items():
        chosen = choose_documents(channel, tokens_per_channel)
        bounds = [(channel.offsets[i] + 1, channel.offsets[i + 1] - 1) for i in chosen]  # without BOS and EOS
        documents = [tuple(channel.tokens[begin:end].tolist()) for begin, end in bounds]
        losses = _losses(model, documents, channel.document_bytes[chosen], channel.special)
        bad = ~np.isfinite(losses[:, 0])
        findings.rows += [_row(suite, name, chosen[i], losses[i]) for i in np.flatnonzero(~bad).tolist()]
        if bad.any():
            findings.leave_out(f"heldout/{name}", "loss is not a number", int(bad.sum()))
        if not bad.all():
            every.append(losses[~bad])
            _add(findings, name, losses[~bad])
    if not findings.metrics:
        raise InputError(f"{directory} has no held-out document that could be scored: {findings.left_out}")
    _add(findings, "all", np.concatenate(every))
    return findings


def _losses(
    model: LanguageModel, documents: list[tuple[int, ...]], lengths: NDArray[np.int64], special: frozenset[int]
) -> NDArray[np.float64]:
    """[document, (nats, tokens, bytes)]."""
    requests, owners = [], []
    for owner, tokens in enumerate(documents):
        for request in (r for window in model.windows(tokens) for r in _without_special(window, special)):
            requests.append(request)
            owners.append(owner)
    losses = np.zeros((len(documents), 3))
    for owner, score in zip(owners, model.scorer.score(requests), strict=True):
        losses[owner, 0] -= score.logprob
        losses[owner, 1] += score.tokens
    losses[:, 2] = lengths
    return losses


def _without_special(window: tuple[Tokens, Tokens], special: frozenset[int]) -> Iterator[tuple[Tokens, Tokens]]:
    """(context, continuation) of each run of text in a window: special tokens are context, never scored."""
    context, continuation = window
    at = 0
    for is_special, run in groupby(continuation, special.__contains__):
        end = at + len(list(run))
        if not is_special:
            yield context + continuation[:at], continuation[at:end]
        at = end


def _row(suite: str, channel: str, document: int, losses: NDArray[np.float64]) -> dict[str, Any]:
    nats, tokens, size = losses.tolist()
    return {"task": suite, "variant": channel, "id": str(document), "nats": round(nats, 4), "tokens": int(tokens),
            "bytes": int(size)}


def _add(findings: Findings, channel: str, losses: NDArray[np.float64]) -> None:
    nats, tokens, size = losses.T
    a_token, a_byte = _ratio(nats, tokens), _ratio(nats, size)
    findings.add(f"heldout/nats/{channel}", a_token)
    perplexity = math.exp(min(a_token.value, 700.0))
    findings.add(f"heldout/ppl/{channel}", Estimate(perplexity, perplexity * a_token.stderr, a_token.n))
    findings.add(f"heldout/bpb/{channel}", Estimate(a_byte.value / math.log(2), a_byte.stderr / math.log(2), a_byte.n))


def _ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> Estimate:
    ratio = above.sum() / below.sum()
    spread = mean(((above - ratio * below) / below.mean()).tolist())
    return Estimate(float(ratio), spread.stderr, len(above))


def _check_vocabulary(model: LanguageModel, directory: Path) -> None:
    size, made_with = len(model.tokenizer), read_index(directory)["vocab_size"]
    if made_with != size:
        raise InputError(
            f"{directory} was tokenized with a vocabulary of {made_with}, the checkpoint's tokenizer has "
            f"{size} tokens; give the `tokens` that were made with the checkpoint's tokenizer"
        )
