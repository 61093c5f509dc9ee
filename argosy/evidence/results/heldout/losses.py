"""Held-out loss by channel, of any checkpoint: on tokenized held-out files, or on raw text of one's own."""

import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.statistics.intervals import Estimate, exponential, ratio
from argosy.evidence.results.findings import Findings, declaration, reason
from argosy.evidence.results.heldout.documents import Documents, text_documents, tokenized_documents
from argosy.evidence.results.heldout.memorisation import MemorisationProbe, memorisation
from argosy.evidence.results.heldout.positions import Positions, loss_by_position
from argosy.evidence.results.suite import NoFileError, locate
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.scorer import Request


class Heldout(Config):
    """The `heldout` section of a suite."""

    tokens_per_channel: int = Field(20_000, ge=1)
    """tokens of the tokenized held-out files; whole documents, at least one"""
    texts: str | dict[str, str] = ""
    """raw text instead: a path (JSONL, text files, or a folder of them), or a path for each channel"""
    bytes_per_channel: int = Field(100_000, ge=1)
    """bytes of `texts`; whole documents, or the beginning of the shortest one where none fits"""
    stride: int | None = Field(None, ge=1)
    """tokens scored at a time in documents longer than the model; null: windows do not overlap"""
    positions: Positions | None = None
    """loss by position and the gain of a long context; `{}` for the defaults"""
    memorisation: MemorisationProbe | None = None
    """training text against held-out text; needs the tokenize step; `{}` for the defaults"""

    @model_validator(mode="after")
    def _named(self) -> Self:
        if isinstance(self.texts, dict) and not all((*self.texts.keys(), *self.texts.values())):
            raise ValueError("texts has a channel without a name or a path; allowed: {channel: path, ...}")
        return self


def check_heldout(section: Heldout, tokens: str, suite: str) -> None:
    """Check that the section's text is given.

    Raises InputError: there is neither a tokenize step's directory nor texts, or no training text to compare with."""
    give = "give `tokens`, a tokenize step's directory (argosy evaluate --tokens DIR)"
    if not tokens and not section.texts:
        raise InputError(f"suite {suite} measures held-out loss: {give}, or `texts` in the suite's heldout section")
    if not tokens and section.memorisation is not None:
        raise InputError(f"suite {suite}, heldout.memorisation compares with training text: {give}")


def run_heldout(
    section: Heldout, model: LanguageModel, tokens: str, *, suite: str, data: str = "", seed: int = 0
) -> Findings:
    """Measure what the section names. A channel whose text is absent has failed, and the others go on.

    `tokens`: a tokenize step's directory; "" where `texts` is enough. `data`: a directory that `texts` may be below.
    Raises InputError: files that are absent, broken or another tokenizer's."""
    check_heldout(section, tokens, suite)
    findings = Findings()
    if section.texts:
        documents = text_documents(model, _located(section.texts, data, findings), section.bytes_per_channel)
    else:
        documents = tokenized_documents(model, Path(tokens), section.tokens_per_channel)
    findings.merge(channel_losses(model, documents, section.stride, suite))
    if section.positions is not None:
        findings.merge(loss_by_position(model, documents, section.positions, suite))
    if section.memorisation is not None:
        findings.merge(memorisation(model, Path(tokens), section.memorisation, suite=suite, seed=seed))
    return findings


def _located(texts: str | dict[str, str], data: str, findings: Findings) -> str | dict[str, str]:
    """Locate the texts; a channel without its file has failed, where another one has it."""
    if isinstance(texts, str):
        return str(locate(texts, data, "heldout.texts"))
    paths: dict[str, str] = {}
    first: NoFileError | None = None
    for name, path in texts.items():
        try:
            paths[name] = str(locate(path, data, f"heldout.texts.{name}"))
        except NoFileError as error:
            first = first or error
            findings.fail(f"heldout/{name}", reason(error))
    if first and not paths:
        raise first
    return paths


def channel_losses(
    model: LanguageModel, channels: Mapping[str, Documents], stride: int | None, suite: str
) -> Findings:
    """Measure the loss of each channel: nats a token, perplexity and bits a byte, and of `all` of them together.

    Each document alone, after BOS, without its closing EOS and the marks of a conversation's turns; long ones in
    windows (LanguageModel.windows). Bits a byte divide by the text's own UTF-8 bytes, so that they
    compare
    across tokenizers; `heldout/changed/<channel>` is the share of documents that the tokenizer writes as another text
    (they are no longer the same text for every model), where there are such. Standard errors are over documents (of a
    ratio, by the delta method). A row a document, so that two checkpoints are compared document by document: `nats` and
    `tokens` of its text, its `bytes`; `id` is its number in the channel's held-out file, or its file and line."""
    if stride is not None and stride > model.max_length:
        raise InputError(f"heldout.stride is {stride}, allowed for this model: 1 to {model.max_length}, its positions")
    findings = Findings()
    every: list[NDArray[np.float64]] = []
    for name, documents in channels.items():
        for why, n in documents.left_out.items():
            findings.leave_out(f"heldout/{name}", why, n)
        losses = _losses(model, documents, stride)
        bad = ~np.isfinite(losses[:, 0]) | (losses[:, 1] == 0)
        for i in np.flatnonzero(~bad).tolist():
            nats, tokens, size = losses[i].tolist()
            findings.rows.append({"task": suite, "variant": name, "id": documents.ids[i], "nats": round(nats, 4),
                                  "tokens": int(tokens), "bytes": int(size)})
        if bad.any():
            findings.leave_out(f"heldout/{name}", "loss is not a number", int(bad.sum()))
        if not bad.all():
            every.append(losses[~bad])
            _add_losses(findings, name, losses[~bad])
        if documents.changed:
            n = len(documents.ids)
            _add(findings, f"heldout/changed/{name}", Estimate(documents.changed / n, math.nan, n))
    if every:
        _add_losses(findings, "all", np.concatenate(every))
    return findings


def _losses(model: LanguageModel, documents: Documents, stride: int | None) -> NDArray[np.float64]:
    """Compute [document, (nats, tokens, bytes)]."""
    requests, owners = [], []
    for owner, tokens in enumerate(documents.tokens):
        for window in model.windows(tokens, stride):
            for request in _without_special(window, documents.special):
                requests.append(request)
                owners.append(owner)
    losses = np.zeros((len(documents.ids), 3))
    for owner, score in zip(owners, model.scorer.score(requests), strict=True):
        losses[owner, 0] -= score.logprob
        losses[owner, 1] += score.tokens
    losses[:, 2] = documents.sizes
    return losses


def _without_special(window: Request, special: frozenset[int]) -> Iterator[Request]:
    """Yield (context, continuation) of each run of text in a window: special tokens are context, never scored."""
    context, continuation = window
    at = 0
    for is_special, run in groupby(continuation, special.__contains__):
        end = at + len(list(run))
        if not is_special:
            yield context + continuation[:at], continuation[at:end]
        at = end


def _add_losses(findings: Findings, channel: str, losses: NDArray[np.float64]) -> None:
    nats, tokens, size = (column.tolist() for column in losses.T)
    a_token = ratio(nats, tokens)
    _add(findings, f"heldout/nats/{channel}", a_token)
    _add(findings, f"heldout/ppl/{channel}", exponential(a_token))
    _add(findings, f"heldout/bpb/{channel}", ratio(nats, size, 1 / math.log(2)))


def _add(findings: Findings, name: str, estimate: Estimate) -> None:
    findings.add(name, estimate, declaration(name))
