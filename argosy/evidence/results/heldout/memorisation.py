"""Memorisation of training text: verbatim continuation, and the difference between training and held-out text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.lazy import Floats, torch
from argosy.core.statistics.intervals import Estimate, mean
from argosy.corpus.tokens.reader import Split, TokenizedChannel, read_channels
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.heldout.documents import check_vocabulary
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import Query, Tokens

SPLITS: tuple[Split, ...] = ("train", "heldout")


class MemorisationProbe(Config):
    """The section `heldout.memorisation`."""

    samples: int = Field(200, ge=2)
    """documents of each channel and split, drawn by the seed"""
    prefix: int = Field(32, ge=1)
    """tokens that are given"""
    continuation: int = Field(32, ge=1)
    """tokens that follow"""
    channels: tuple[str, ...] = ()
    """empty: all that have text of both splits"""


@dataclass(frozen=True)
class _Sample:
    """The beginning of one document."""

    document: int
    matched: int
    """tokens of the continuation that greedy generation says, up to its first other one"""


def memorisation(model: LanguageModel, directory: Path, probe: MemorisationProbe, *, suite: str, seed: int) -> Findings:
    """Compare beginnings of training documents (members) with those of held-out ones of the same channel, as long.

    Verbatim continuation (Carlini et al., "Quantifying Memorization Across Neural Language Models", 2023): after
    `prefix` tokens, whether greedy generation says the next `continuation` ones (`exact`), and the share that it says
    before it parts (`matched`). Generation is not needed: it is the text as long as each next token is the likeliest.
    `memorisation/{exact,matched}/<channel>`, `..._heldout/...` (the base line: text that the model has not learnt) and
    `..._gap/...` (their difference).

    Documents start where the training data has them; whether training came to see them depends on its mixture. `all`
    is the mean of the channels. Standard errors are over documents. Channels that are too short are named. A row a
    document: `member`, `matched` of `tokens`, and `exact`. Raises InputError: files of another
    tokenizer, a channel that is not there, or more tokens than the model's positions."""
    check_vocabulary(model, directory)
    findings = Findings()
    channels = {split: read_channels(directory, split) for split in SPLITS}
    estimates: dict[str, dict[str, Estimate]] = {}
    for name in _channels(model, probe, channels, findings):
        drawn = {split: _draw(channels[split][name], probe, f"{seed}/{split}/{name}") for split in SPLITS}
        scored = _score_channel(model, probe, name, drawn, findings)
        findings.rows += [
            {"task": suite, "variant": f"memorisation/{name}", "id": f"{split}/{each.document}",
             "member": split == "train", "matched": each.matched, "tokens": probe.continuation,
             "exact": each.matched == probe.continuation}
            for split, own in scored.items() for each in own]
        if len(scored) == 2 and all(len(samples) > 1 for samples in scored.values()):
            estimates[name] = _estimates(probe, scored["train"], scored["heldout"])
    for measure in next(iter(estimates.values()), {}):
        every = {name: each[measure] for name, each in estimates.items()}
        for name, estimate in {**every, "all": _mean_of_channels([*every.values()])}.items():
            findings.add(f"memorisation/{measure}/{name}", estimate)
    return findings


def _channels(model: LanguageModel, probe: MemorisationProbe, channels: Mapping[Split, Mapping[str, Any]],
              findings: Findings) -> Sequence[str]:
    length = probe.prefix + probe.continuation
    if length > model.max_length:
        raise InputError(f"heldout.memorisation: prefix + continuation is {length} tokens, allowed for this model: up "
                         f"to {model.max_length}, its positions")
    both = sorted(channels["train"].keys() & channels["heldout"].keys())
    if not both:
        findings.leave_out("memorisation", "no channel has both training and held-out text")
    for name in probe.channels:
        if name not in both:
            raise InputError(f"heldout.memorisation.channels has {name!r}; allowed: {', '.join(both)}")
    return probe.channels or both


def _score_channel(model: LanguageModel, probe: MemorisationProbe, name: str,
                   drawn: Mapping[Split, Sequence[tuple[int, Tokens]]],
                   findings: Findings) -> dict[Split, list[_Sample]]:
    """Score the samples of each split, up to the first that has too few."""
    scored: dict[Split, list[_Sample]] = {}
    for split, samples in drawn.items():
        if len(samples) < 2:
            length = probe.prefix + probe.continuation
            findings.leave_out(f"memorisation/{name}", f"fewer than 2 {split} documents of {length} tokens")
            break
        scored[split] = _score(model, probe, samples)
        if bad := len(samples) - len(scored[split]):
            findings.leave_out(f"memorisation/{name}", "score is not a number", bad)
    return scored


def _said(logs: "torch.Tensor", query: Query) -> Floats:
    """Tell of each token whether it was the likeliest, 1 or 0; NaN where the log-probabilities are not numbers."""
    best, at = logs.max(-1)
    same = at == torch.tensor(query.targets, device=logs.device)
    return same.double().masked_fill(~best.isfinite(), math.nan).cpu().numpy()


def _draw(channel: TokenizedChannel, probe: MemorisationProbe, seed: str) -> list[tuple[int, Tokens]]:
    """Draw (document, BOS and its first tokens) of documents that are long enough."""
    length = 1 + probe.prefix + probe.continuation
    lengths = np.diff(channel.offsets) - 1  # without EOS
    long_enough = np.flatnonzero(lengths >= length).tolist()
    chosen = Random(seed).sample(long_enough, min(probe.samples, len(long_enough)))
    starts = [(document, int(channel.offsets[document])) for document in sorted(chosen)]
    return [(document, tuple(channel.tokens[start : start + length].tolist())) for document, start in starts]


def _score(model: LanguageModel, probe: MemorisationProbe, samples: Sequence[tuple[int, Tokens]]) -> list[_Sample]:
    """Score samples of at least two tokens, their first being given. Raises InputError: the model is not transformers'
    (its backend gives no whole distributions); StepError: one sample does not fit into memory."""
    if not callable(model.model):
        raise InputError("memorisation needs whole distributions, which vLLM does not give: take backend: transformers")
    queries = [Query(tokens[:-1], 0, tokens[1:]) for _, tokens in samples]
    said = dict(model.scorer.distributions(list(dict.fromkeys(queries)), _said))
    scored = []
    for (document, _), query in zip(samples, queries, strict=True):
        if np.isfinite(said[query]).all():
            greedy = said[query][probe.prefix :] > 0
            scored.append(_Sample(document, len(greedy) if greedy.all() else int(np.argmin(greedy))))
    return scored


def _estimates(probe: MemorisationProbe, members: Sequence[_Sample], others: Sequence[_Sample]) -> dict[str, Estimate]:
    estimates: dict[str, Estimate] = {}
    for name in ("exact", "matched"):
        a, b = (_share(samples, name, probe) for samples in (members, others))
        gap = Estimate(a.value - b.value, math.hypot(a.stderr, b.stderr), a.n + b.n)
        estimates |= {name: a, f"{name}_heldout": b, f"{name}_gap": gap}
    return estimates


def _share(samples: Sequence[_Sample], name: str, probe: MemorisationProbe) -> Estimate:
    if name == "matched":
        return mean([sample.matched / probe.continuation for sample in samples])
    n, exact = len(samples), sum(sample.matched == probe.continuation for sample in samples)
    p = (exact + 1) / (n + 2)  # the error is not 0 where none, or all, of a few match (Agresti & Caffo 2000)
    return Estimate(exact / n, math.sqrt(p * (1 - p) / (n + 2)), n)


def _mean_of_channels(estimates: Sequence[Estimate]) -> Estimate:
    """Average over channels: each counts as much, so that `all` does not depend on their numbers of documents."""
    k = len(estimates)
    error = math.sqrt(math.fsum(each.stderr**2 for each in estimates)) / k
    return Estimate(math.fsum(each.value for each in estimates) / k, error, sum(each.n for each in estimates))
