"""Held-out loss by channel, of any checkpoint: on tokenized held-out files, or on raw text of one's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from argosy.config import Config
from argosy.errors import InputError
from argosy.evaluation.channel_documents import Documents, text_documents, tokenized_documents
from argosy.evaluation.channel_memorisation import MemorisationProbe, memorisation
from argosy.evaluation.channel_positions import Positions, loss_by_position
from argosy.evaluation.channel_windows import strided_windows, without_special
from argosy.evaluation.estimates import exponential, ratio
from argosy.evaluation.findings import Findings
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.named_files import NoFileError, locate, without_folders


class Heldout(Config):
    """The `heldout` section of a suite.

    Attributes:
        tokens_per_channel: of the tokenized held-out files; whole documents, at least one.
        texts: raw text instead: a path (JSONL, text files, or a folder of them), or a path for each channel.
        bytes_per_channel: of `texts`; whole documents, or the beginning of the shortest one where none fits.
        stride: tokens scored at a time in documents longer than the model; nothing: windows do not overlap.
        positions: loss by position and what the context is worth; `{}` for the defaults.
        memorisation: training text against held-out text; needs the tokenize step; `{}` for the defaults.
    """

    tokens_per_channel: int = Field(20_000, ge=1)
    texts: str | dict[str, str] = ""
    bytes_per_channel: int = Field(100_000, ge=1)
    stride: int | None = Field(None, ge=1)
    positions: Positions | None = None
    memorisation: MemorisationProbe | None = None

    @model_validator(mode="after")
    def _named(self) -> Self:
        if isinstance(self.texts, dict) and not all((*self.texts.keys(), *self.texts.values())):
            raise ValueError("texts has a channel without a name or a path; allowed: {channel: path, ...}")
        return self


def check_heldout(section: Heldout, tokens: str, suite: str) -> None:
    """Raise where what it is about is not given.

    Raises:
        InputError: there is neither a tokenize step's directory nor texts, or no training text to compare with.
    """
    give = "give `tokens`, a tokenize step's directory (argosy evaluate --tokens DIR)"
    if not tokens and not section.texts:
        raise InputError(f"suite {suite} measures held-out loss: {give}, or `texts` in the suite's heldout section")
    if not tokens and section.memorisation is not None:
        raise InputError(f"suite {suite}, heldout.memorisation compares with training text: {give}")


def run_heldout(
    section: Heldout, model: LanguageModel, tokens: str, *, suite: str, data: str = "", seed: int = 0
) -> Findings:
    """All that the section asks for. A channel whose text is not there has failed, and the others go on.

    Args:
        tokens: a tokenize step's directory; "" where only `texts` is asked for.
        data: a directory that `texts` may be below.

    Raises:
        InputError: files that are absent, broken or another tokenizer's.
    """
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
    """The paths that are there; a channel without its file has failed, where another one has it."""
    if isinstance(texts, str):
        return str(locate(texts, data, "heldout.texts"))
    found: dict[str, str] = {}
    first: NoFileError | None = None
    for name, path in texts.items():
        try:
            found[name] = str(locate(path, data, f"heldout.texts.{name}"))
        except NoFileError as error:
            first = first or error
            findings.fail(f"heldout/{name}", without_folders(error))
    if first and not found:
        raise first
    return found


def heldout_loss(model: LanguageModel, directory: Path, tokens_per_channel: int, suite: str = "heldout") -> Findings:
    """`channel_losses` of a tokenize step's held-out files.

    Raises:
        InputError: no held-out files, files that do not fit each other, or another tokenizer's.
    """
    documents = tokenized_documents(model, directory, tokens_per_channel)
    findings = channel_losses(model, documents, None, suite)
    if not findings.metrics:
        raise InputError(f"{directory} has no held-out document that could be scored: {findings.left_out}")
    return findings


def channel_losses(
    model: LanguageModel, channels: Mapping[str, Documents], stride: int | None, suite: str
) -> Findings:
    """Loss of each channel: nats a token, perplexity and bits a byte, and `all` of them together.

    Each document alone, after BOS, without its closing EOS and the marks of a conversation's turns; long ones in
    windows (argosy.evaluation.channel_windows). Bits a byte divide by the text's own UTF-8 bytes, so that they compare
    across tokenizers; `heldout/changed/<channel>` is the share of documents that the tokenizer writes as another text
    (they are no longer the same text for every model), where there are such. Standard errors are over documents (of a
    ratio, by the delta method). A row a document, so that two checkpoints are compared document by document: `nats` and
    `tokens` of its text, its `bytes`; `id` is its number in the channel's held-out file, or its file and line.
    """
    findings = Findings()
    every: list[NDArray[np.float64]] = []
    for name, documents in channels.items():
        for reason, n in documents.left_out.items():
            findings.leave_out(f"heldout/{name}", reason, n)
        losses = _losses(model, documents, stride)
        bad = ~np.isfinite(losses[:, 0]) | (losses[:, 1] == 0)
        findings.rows += [_row(suite, name, documents.ids[i], losses[i]) for i in np.flatnonzero(~bad).tolist()]
        if bad.any():
            findings.leave_out(f"heldout/{name}", "loss is not a number", int(bad.sum()))
        if not bad.all():
            every.append(losses[~bad])
            _add(findings, name, losses[~bad])
        if documents.changed:
            share = documents.changed / len(documents.ids)
            findings.metrics[f"heldout/changed/{name}"] = share
            findings.counts[f"heldout/changed/{name}"] = len(documents.ids)
    if every:
        _add(findings, "all", np.concatenate(every))
    return findings


def _losses(model: LanguageModel, documents: Documents, stride: int | None) -> NDArray[np.float64]:
    """[document, (nats, tokens, bytes)]."""
    requests, owners = [], []
    for owner, tokens in enumerate(documents.tokens):
        for window in strided_windows(model, tokens, stride):
            for request in without_special(window, documents.special):
                requests.append(request)
                owners.append(owner)
    losses = np.zeros((len(documents.ids), 3))
    for owner, score in zip(owners, model.scorer.score(requests), strict=True):
        losses[owner, 0] -= score.logprob
        losses[owner, 1] += score.tokens
    losses[:, 2] = documents.sizes
    return losses


def _row(suite: str, channel: str, document: str, losses: NDArray[np.float64]) -> dict[str, Any]:
    nats, tokens, size = losses.tolist()
    return {"task": suite, "variant": channel, "id": document, "nats": round(nats, 4), "tokens": int(tokens),
            "bytes": int(size)}


def _add(findings: Findings, channel: str, losses: NDArray[np.float64]) -> None:
    nats, tokens, size = (column.tolist() for column in losses.T)
    a_token = ratio(nats, tokens)
    findings.add(f"heldout/nats/{channel}", a_token)
    findings.add(f"heldout/ppl/{channel}", exponential(a_token))
    findings.add(f"heldout/bpb/{channel}", ratio(nats, size, 1 / math.log(2)))
