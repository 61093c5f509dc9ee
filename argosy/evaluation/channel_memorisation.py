"""How much of its training text a model can say verbatim, and whether it tells that text from held-out text."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from pydantic import Field

from argosy.config import Config
from argosy.errors import InputError
from argosy.evaluation.channel_documents import check_vocabulary
from argosy.evaluation.estimates import auc
from argosy.evaluation.findings import Findings
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.rows import Tokens
from argosy.evaluation.token_statistics import TokenStatistics, token_statistics
from argosy.statistics.intervals import Estimate, mean
from argosy.tokens.reader import Split, TokenizedChannel, read_channels

ATTACKS = ("loss", "zlib", "min_k", "min_k_plus")


class MemorisationProbe(Config):
    """`heldout.memorisation`. `samples`: documents of each channel and split, drawn by the seed. `prefix`: tokens that
    are given; `continuation`: those that follow. `min_k`: share of the least likely tokens that min_k looks at.
    `channels`: nothing = all that have text of both splits."""

    samples: int = Field(200, ge=2)
    prefix: int = Field(32, ge=1)
    continuation: int = Field(32, ge=1)
    min_k: float = Field(0.2, gt=0, le=1)
    channels: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Sample:
    """The beginning of one document."""

    document: int
    matched: int  # tokens of the continuation that greedy generation says, up to its first other one
    exact: bool
    scores: dict[str, float]  # higher = rather a member


def memorisation(
    model: LanguageModel, directory: Path, probe: MemorisationProbe, *, suite: str, seed: int
) -> Findings:
    """Beginnings of training documents (members) against those of held-out ones of the same channel, as long.

    Verbatim continuation (Carlini et al., "Quantifying Memorization Across Neural Language Models", 2023): after
    `prefix` tokens, whether greedy generation says the next `continuation` ones (`exact`), and the share that it says
    before it parts (`matched`). Generation is not needed: it is the text as long as each next token is the likeliest.
    `memorisation/{exact,matched}/<channel>`, `..._heldout/...` (what a model says without having seen it: the base
    line) and `..._gap/...` (their difference).

    Membership: `memorisation/auc_<score>/<channel>`, the probability that a member scores above a held-out text (0.5:
    cannot tell). Scores: loss (Yeom et al. 2018), zlib (log-probability a byte of the compressed text; Carlini et al.
    2021), min_k (mean of the least likely tokens; Shi et al. 2024), min_k_plus (the same, each token against the
    model's own distribution: Min-K%++, Zhang et al. 2025).

    Documents start where the training data has them; whether training came to see them depends on its mixture. `all` is
    the mean of the channels. Standard errors are over documents. Channels that are too short are named. A row a
    document: `member`, `matched` of `tokens`, `exact`, and the scores.

    Raises:
        InputError: files of another tokenizer, a channel that is not there, or more tokens than the model's positions.
    """
    check_vocabulary(model, directory)
    findings = Findings()
    every: dict[str, dict[str, Estimate]] = {}
    splits: tuple[Split, ...] = ("train", "heldout")
    found = {split: read_channels(directory, split) for split in splits}
    length = probe.prefix + probe.continuation
    if length > model.max_length:
        raise InputError(f"heldout.memorisation: prefix + continuation is {length} tokens, allowed for this model: up "
                         f"to {model.max_length}, its positions")
    both = sorted(found["train"].keys() & found["heldout"].keys())
    if not both:
        findings.leave_out("memorisation", "no channel has both training and held-out text")
    for name in probe.channels:
        if name not in both:
            raise InputError(f"heldout.memorisation.channels has {name!r}; allowed: {', '.join(both)}")
    for name in probe.channels or both:
        drawn: dict[Split, list[_Sample]] = {}
        for split in splits:
            samples = _draw(found[split][name], probe, f"{seed}/{split}/{name}")
            if len(samples) < 2:
                findings.leave_out(f"memorisation/{name}", f"fewer than 2 {split} documents of {length} tokens")
                break
            drawn[split] = _score(model, probe, samples)
            if bad := len(samples) - len(drawn[split]):
                findings.leave_out(f"memorisation/{name}", "score is not a number", bad)
            findings.rows += [_row(suite, name, split, sample, probe) for sample in drawn[split]]
        if len(drawn) == 2 and all(len(samples) > 1 for samples in drawn.values()):
            every[name] = _estimates(probe, drawn["train"], drawn["heldout"])
    for name, estimates in every.items():
        for measure, estimate in estimates.items():
            findings.add(f"memorisation/{measure}/{name}", estimate)
    for measure in next(iter(every.values()), {}):
        findings.add(f"memorisation/{measure}/all", _mean_of_channels([each[measure] for each in every.values()]))
    return findings


def _draw(channel: TokenizedChannel, probe: MemorisationProbe, seed: str) -> list[tuple[int, Tokens]]:
    """(document, BOS and its first tokens) of documents that are long enough."""
    length = 1 + probe.prefix + probe.continuation
    lengths = np.diff(channel.offsets) - 1  # without EOS
    long_enough = np.flatnonzero(lengths >= length).tolist()
    chosen = Random(seed).sample(long_enough, min(probe.samples, len(long_enough)))
    starts = [(document, int(channel.offsets[document])) for document in sorted(chosen)]
    return [(document, tuple(channel.tokens[start : start + length].tolist())) for document, start in starts]


def _score(
    model: LanguageModel, probe: MemorisationProbe, samples: Sequence[tuple[int, Tokens]]
) -> list[_Sample]:
    statistics = token_statistics(model, [tokens for _, tokens in samples])
    found = []
    for (document, tokens), each in zip(samples, statistics, strict=True):
        if np.isfinite(each.logprobs).all() and np.isfinite(each.z).all():
            greedy = each.greedy[probe.prefix :]
            matched = len(greedy) if greedy.all() else int(np.argmin(greedy))
            scores = _scores(model, tokens[1:], each, probe.min_k)
            found.append(_Sample(document, matched, bool(greedy.all()), scores))
    return found


def _scores(model: LanguageModel, tokens: Tokens, each: TokenStatistics, share: float) -> dict[str, float]:
    text = model.tokenizer.decode(tokens).encode()
    lowest = max(1, round(share * len(tokens)))
    return {
        "loss": float(each.logprobs.mean()),
        "zlib": float(each.logprobs.sum()) / len(zlib.compress(text)),
        "min_k": float(np.sort(each.logprobs)[:lowest].mean()),
        "min_k_plus": float(np.sort(each.z)[:lowest].mean()),
    }


def _row(suite: str, channel: str, split: str, sample: _Sample, probe: MemorisationProbe) -> dict[str, Any]:
    return {"task": suite, "variant": f"memorisation/{channel}", "id": f"{split}/{sample.document}",
            "member": split == "train", "matched": sample.matched, "tokens": probe.continuation, "exact": sample.exact,
            "scores": [round(sample.scores[name], 5) for name in ATTACKS]}


def _estimates(probe: MemorisationProbe, members: list[_Sample], others: list[_Sample]) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {}
    for name in ("exact", "matched"):
        a, b = (_share(samples, name, probe) for samples in (members, others))
        gap = Estimate(a.value - b.value, math.hypot(a.stderr, b.stderr), a.n + b.n)
        found |= {name: a, f"{name}_heldout": b, f"{name}_gap": gap}
    for name in ATTACKS:
        found[f"auc_{name}"] = auc([each.scores[name] for each in members], [each.scores[name] for each in others])
    return found


def _share(samples: list[_Sample], name: str, probe: MemorisationProbe) -> Estimate:
    if name == "matched":
        return mean([sample.matched / probe.continuation for sample in samples])
    n, exact = len(samples), sum(sample.exact for sample in samples)
    p = (exact + 1) / (n + 2)  # the error is not 0 where none, or all, of a few match (Agresti & Caffo 2000)
    return Estimate(exact / n, math.sqrt(p * (1 - p) / (n + 2)), n)


def _mean_of_channels(estimates: Sequence[Estimate]) -> Estimate:
    """Each channel counts as much, so that `all` is not a matter of how many documents each has."""
    k = len(estimates)
    error = math.sqrt(math.fsum(each.stderr**2 for each in estimates)) / k
    return Estimate(math.fsum(each.value for each in estimates) / k, error, sum(each.n for each in estimates))
