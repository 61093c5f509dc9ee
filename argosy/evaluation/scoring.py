"""Log-probabilities of token continuations under a causal model, with shared beginnings computed once.

What is asked is planned (argosy.evaluation.planning), computed (forward) and read here. Equal requests are one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from argosy.evaluation.cache import Known
from argosy.evaluation.forward import Forward
from argosy.evaluation.planning import Limits, plan
from argosy.evaluation.rows import Grid, Tokens, Wanted
from argosy.evaluation.score import NOT_SCORED, Score, Scored
from argosy.evaluation.vocabulary import Parts, chosen, log_softmax
from argosy.evaluation.work import Work

if TYPE_CHECKING:
    import torch

__all__ = ["NOT_SCORED", "Fit", "Score", "Scored", "Scorer"]
_PADDING, _PADDING_CPU = 4096, 64  # tokens that can be computed while a forward pass is started
_COMPUTED_CPU = 1024  # tokens at a time: with more, what the layers hand on leaves the caches
_ATTENTION = 1.0  # how much slower attention's arithmetic is than that of matrices of weights


Request = tuple[Tokens, Tokens]  # context, continuation


class Fit(IntEnum):
    """How much of a request is scored: all, a context that is cut at its left, or nothing (the continuation alone is
    longer than the model)."""

    WHOLE = 0
    CUT = 1
    TOO_LONG = 2


class Scorer:
    """Scores (context, continuation) token pairs with a Hugging Face causal model in evaluation mode.

    Args:
        model: AutoModelForCausalLM's; on its device.
        max_length: positions that the model has. A longer pair loses tokens at its left, as in lm-eval.
        batch_tokens: tokens (padding included) of one forward pass; fewer where memory does not suffice.
        work: who computes batches, and where they are written down.
        known: scores that need not be computed.

    `cut` counts the requests, of all so far, whose beginning the model did not see. `short`: tokens up to which it has
    other rotary frequencies (argosy.evaluation.forward), or 0.
    """

    cut: int = 0
    short: int = 0

    def __init__(
        self, model: Any, max_length: int, batch_tokens: int = 8192, work: Work | None = None,
        known: Known | None = None,
    ) -> None:
        self.max_length = max_length
        self.batch_tokens = batch_tokens
        self.work = work or Work()
        self.known = known or Known()
        self.forward = Forward(model)
        self.forward.find_out(max_length)
        self.short = self.forward.short
        self._pair = _pair_cost(model)

    @property
    def branching(self) -> bool:
        """Whether sequences that share a beginning are computed together."""
        return self.forward.branching

    def fit(self, requests: Sequence[Request]) -> list[Fit]:
        """How much of each request the model has positions for."""
        found = []
        for context, continuation in requests:
            if len(continuation) > self.max_length:
                found.append(Fit.TOO_LONG)
            else:
                whole = len(context) + len(continuation) - 1 <= self.max_length
                found.append(Fit.WHOLE if whole else Fit.CUT)
        return found

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """A score for each request, in their order.

        A pair that cannot be scored (no tokens in one half, or a continuation beyond `max_length`) has the score
        NOT_SCORED, so that one of thousands does not stop the others.
        """
        asked = [self._wanted(*request) for request in requests]
        scores = {each: self.known.get(each) for each in asked if each is not None}
        new = [each for each, score in scores.items() if score is None]
        found = [(each, scored.score) for each, scored in zip(new, self._scored(new), strict=True)]
        self.known.add(found)
        scores.update(found)
        return [NOT_SCORED if each is None else scores[each] or NOT_SCORED for each in asked]

    def token_logprobs(self, requests: Sequence[Request]) -> list[NDArray[np.float64]]:
        """Log-probability (nats) of each token of each continuation; NaN where a pair cannot be scored."""
        asked = [self._wanted(*request) for request in requests]
        each = list(dict.fromkeys(wanted for wanted in asked if wanted is not None))
        found = dict(zip(each, self._scored(each), strict=True))
        return [np.full(len(continuation), math.nan) if wanted is None else found[wanted].logprobs
                for wanted, (_, continuation) in zip(asked, requests, strict=True)]  # fmt: skip

    def next_token(self, contexts: Sequence[Tokens]) -> Iterator[tuple[int, torch.Tensor]]:
        """(index of the context, log-probabilities of the next token [vocabulary], float32), in any order."""
        import torch

        def read(parts: Parts, laid: Grid, asked: Sequence[Wanted]) -> list[torch.Tensor]:
            values = torch.cat([log_softmax(blocks) for _, blocks in parts])
            return [values[int(places[-1])] for places, _ in zip(laid.places, asked, strict=True)]

        cut = [context[-self.max_length :] for context in contexts]
        self.cut += sum(len(context) > self.max_length for context in contexts)
        owners = _owners([Wanted(context, len(context) - 1, ()) for context in cut if context])
        wanted = list(owners)
        for batch in plan(wanted, replace(self._limits(), vocabulary=self.forward.vocabulary)):
            rows = [[wanted[index] for index in row] for row in batch.rows]
            found = iter(self.forward.run(batch.prefix, rows, read))
            for asked in (each for row in rows for each in row):
                values = next(found)
                for index in owners[asked]:
                    yield index, values

    def _scored(self, wanted: Sequence[Wanted]) -> list[Scored]:
        """What was found of each of different sequences."""
        found: dict[int, Scored] = {}
        batches = plan(wanted, self._limits())
        tasks = [(batch.prefix, tuple(tuple(wanted[index] for index in row) for row in batch.rows))
                 for batch in batches]  # fmt: skip
        for number, dumped in self.work.run("scores", tasks, self.compute):
            members = [index for row in batches[number].rows for index in row]
            found.update(zip(members, map(Scored.load, dumped), strict=True))
        return [found[index] for index in range(len(wanted))]

    def compute(self, task: tuple[Tokens, Sequence[Sequence[Wanted]]]) -> list[list[list[Any]]]:
        """Scores (dumped) of a batch's sequences, row after row. What is not a number spreads over a whole row, also
        to where attention is zero, so the sequences of such a row are computed apart."""
        prefix, rows = task
        found = self._computed(prefix, rows)
        start = 0
        for row in rows:
            end = start + len(row)
            if len(row) > 1 and any(np.isnan(each.logprobs).any() for each in found[start:end]):
                found[start:end] = self._computed((), [[each] for each in row])
            start = end
        return [each.dump() for each in found]

    def _computed(self, prefix: Tokens, rows: Sequence[Sequence[Wanted]]) -> list[Scored]:
        return self.forward.run(prefix, rows, _read)

    def _wanted(self, context: Tokens, continuation: Tokens) -> Wanted | None:
        if not context or not 0 < len(continuation) <= self.max_length:
            return None
        beyond = max(0, len(context) + len(continuation) - self.max_length - 1)
        self.cut += beyond > 0
        context = context[beyond:]
        return Wanted(context + continuation[:-1], len(context) - 1, continuation)

    def _limits(self) -> Limits:
        pair = self._pair if self.branching else None
        logits = 0 if self.forward.head == "apart" else self.forward.vocabulary  # of an output, at the same time
        cpu = self.forward.model.device.type == "cpu"
        padding, computed = (_PADDING_CPU, _COMPUTED_CPU) if cpu else (_PADDING, math.inf)
        return Limits(self.batch_tokens, self.max_length, logits, pair, padding, self.short, computed)


def _owners(wanted: Sequence[Wanted]) -> dict[Wanted, list[int]]:
    found: dict[Wanted, list[int]] = {}
    for index, each in enumerate(wanted):
        found.setdefault(each, []).append(index)
    return found


def _read(parts: Parts, laid: Grid, asked: Sequence[Wanted]) -> list[Scored]:
    """Scores of all targets from the logits of all outputs."""
    import torch

    outputs = np.concatenate(laid.places)
    ids = np.array([token for each in asked for token in each.targets], dtype=np.int64)
    logprobs, greedy = np.empty(len(ids)), np.empty(len(ids), dtype=np.bool_)
    for here, blocks in parts:
        which = np.flatnonzero((outputs >= here.start) & (outputs < here.stop))
        at, token = torch.from_numpy(outputs[which] - here.start), torch.from_numpy(ids[which])
        found, first = chosen(blocks, at, token)
        logprobs[which], greedy[which] = found.double().cpu().numpy(), first.cpu().numpy()
    bounds = np.cumsum([len(each.targets) for each in asked])[:-1]
    return [Scored(*each) for each in zip(np.split(logprobs, bounds), np.split(greedy, bounds), strict=True)]


def _pair_cost(model: Any) -> float:
    """Work of one token's attention to another, in tokens computed: a token takes two operations a weight of the
    layers, a pair four a hidden unit and layer."""
    config = model.config.get_text_config()
    ends = (layer for layer in (model.get_input_embeddings(), model.get_output_embeddings()) if layer is not None)
    outer = {id(p) for layer in ends for p in layer.parameters()}  # of both, where the two are tied
    inner = sum(p.numel() for p in model.parameters() if id(p) not in outer)
    layers, hidden = getattr(config, "num_hidden_layers", 1), getattr(config, "hidden_size", 1)
    return float(_ATTENTION * 2 * hidden * layers / max(1, inner))
