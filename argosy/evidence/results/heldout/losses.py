"""Held-out loss of any checkpoint, by channel and by position in the context, and the gain of a long context over a
short one: on tokenized held-out files, or on raw text of one's own."""

import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.statistics.intervals import Estimate, exponential, ratio
from argosy.corpus.tokens.windows import position_ranges
from argosy.evidence.results.findings import Findings, reason
from argosy.evidence.results.heldout.documents import Documents, text_documents, tokenized_documents
from argosy.evidence.results.heldout.memorisation import MemorisationProbe, memorisation
from argosy.evidence.results.suite import NoFileError, locate
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import Tokens
from argosy.model.infer.scorer import Request


class Positions(Config):
    """The section `heldout.positions`."""

    length: int | None = Field(None, ge=16)
    """tokens of context (null: the model's positions, at most 4096)"""
    short: int | None = Field(None, ge=1)
    """tokens of the short context of context_gain (null: an eighth of `length`)"""

    def check_fields(self) -> None:
        if self.length is not None and self.short is not None and self.short * 2 > self.length:
            raise ValueError(f"short is {self.short}; allowed: at most half of length ({self.length})")

    def lengths(self, model: LanguageModel) -> tuple[int, int]:
        """Choose (length, short) for a model. Raises InputError: the model has fewer positions."""
        length = self.length or min(model.max_length, 4096)
        if length > model.max_length:
            raise InputError(f"heldout.positions.length is {length}, allowed for this model: up to {model.max_length}")
        short = self.short or max(1, length // 8)
        if short * 2 > length:
            raise InputError(f"heldout.positions.short is {short}, allowed for this model: up to {length // 2}")
        return length, short


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
    most_nats: dict[str, float] = Field({})
    """nats a token above which a channel is flagged, such as {en: 2}"""
    positions: Positions | None = None
    """loss by position and the gain of a long context; `{}` for the defaults"""
    memorisation: MemorisationProbe | None = None
    """training text against held-out text; needs the tokenize step; `{}` for the defaults"""

    def check_fields(self) -> None:
        if isinstance(self.texts, dict) and not all((*self.texts.keys(), *self.texts.values())):
            raise ValueError("texts has a channel without a name or a path; allowed: {channel: path, ...}")


def check_heldout(section: Heldout, tokens: str, suite: str) -> None:
    """Check that the section's text is given. Raises InputError: there is neither a tokenize step's directory nor
    texts, or no training text to compare with."""
    give = "give `tokens`, a tokenize step's directory (argosy evaluate --tokens DIR)"
    if not tokens and not section.texts:
        raise InputError(f"suite {suite} measures held-out loss: {give}, or `texts` in the suite's heldout section")
    if not tokens and section.memorisation is not None:
        raise InputError(f"suite {suite}, heldout.memorisation compares with training text: {give}")


def run_heldout(section: Heldout, model: LanguageModel, tokens: str, *, suite: str, data: str = "",
                seed: int = 0) -> Findings:
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
    for name, most in section.most_nats.items():
        if (nats := findings.metrics.get(f"heldout/nats/{name}", 0.0)) > most:
            findings.warnings[f"heldout/{name}"] = f"costs {nats:.2f} nats a token, more than {most:g}"
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


def channel_losses(model: LanguageModel, channels: Mapping[str, Documents], stride: int | None, suite: str) -> Findings:
    """Measure the loss of each channel: nats a token, perplexity and bits a byte, and of `all` of them together.

    Each document alone, after BOS, without its closing EOS and the marks of a conversation's turns; long ones in
    windows (LanguageModel.windows). Bits a byte divide by the text's own UTF-8 bytes, so that they compare across
    tokenizers; `heldout/changed/<channel>` is the share of documents that the tokenizer writes as another text
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
            findings.add(f"heldout/changed/{name}", Estimate(documents.changed / n, math.nan, n))
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
    findings.add(f"heldout/nats/{channel}", a_token)
    findings.add(f"heldout/ppl/{channel}", exponential(a_token))
    findings.add(f"heldout/bpb/{channel}", ratio(nats, size, 1 / math.log(2)))


def loss_by_position(model: LanguageModel, channels: Mapping[str, Documents], positions: Positions,
                     suite: str) -> Findings:
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
            _add_positions(findings, suite, name, full[whole], near, owners[whole])
    return findings


def _pieces(prefix: int, tokens: Tokens, length: int) -> list[Request]:
    """Cut pieces of `length` tokens, each after the token before it."""
    begun = (prefix, *tokens)
    return [(begun[start : start + 1], begun[start + 1 : start + 1 + length])
            for start in range(0, len(tokens) - length + 1, length)]


def _short_nats(model: LanguageModel, pieces: list[Request], short: int,
                special: frozenset[int]) -> NDArray[np.float64]:
    """Compute [piece, position of the second half], each token with `short` to 2 * `short` - 1 tokens before it."""
    length = len(pieces[0][1])
    starts = range(length // 2, length, short)
    requests = [(tokens[start - short : start], tokens[start : start + short])
                for _, tokens in pieces for start in starts]
    parts = model.scorer.token_logprobs(requests)
    nats = -np.array([np.concatenate(parts[n * len(starts) : (n + 1) * len(starts)]) for n in range(len(pieces))])
    nats[[[token in special for token in tokens[length // 2 :]] for _, tokens in pieces]] = math.nan
    return nats


def _add_positions(findings: Findings, suite: str, name: str, full: NDArray[np.float64], near: NDArray[np.float64],
                   owners: NDArray[np.int64]) -> None:
    length = full.shape[1]
    for low, high in position_ranges(length):
        nats = _by_document(full[:, low:high], owners)
        if sum(nats[1]):
            estimate = ratio(*nats)
            findings.add(f"heldout/nats_at/{name}/{low}_{high}", estimate)
            row: dict[str, Any] = {"task": suite, "variant": f"nats_at/{name}", "id": f"{low}_{high}", "from": low,
                                   "to": high, "loss": round(estimate.value, 5)}
            findings.rows.append(row)
    gain = _by_document(near - full[:, length // 2 :], owners)
    if sum(gain[1]):
        findings.add(f"heldout/context_gain/{name}", ratio(*gain))


def _by_document(values: NDArray[np.float64], owners: NDArray[np.int64]) -> tuple[list[float], list[float]]:
    """Sum and count each document's values, over its pieces."""
    parts = [values[owners == document] for document in np.unique(owners)]
    return [float(np.nansum(part)) for part in parts], [float((~np.isnan(part)).sum()) for part in parts]
