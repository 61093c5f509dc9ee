"""Log-probabilities of token continuations under a causal model, with shared beginnings computed once.

Requests become queries, which are planned (argosy.model.infer.plan), computed (forward) and read here. Equal
requests are one."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from argosy.core.lazy import torch
from argosy.model.infer.forward import Forward
from argosy.model.infer.logprobs import Parts, log_softmax, target_logprobs
from argosy.model.infer.plan import Limits, plan
from argosy.model.infer.rows import JOINED, NOT_SCORED, TOO_LONG, Grid, Query, Score, Tokens, TokenScores
from argosy.model.infer.work import ScoreCache, Work

_PADDING, _PADDING_CPU = 4096, 64  # tokens that can be computed while a forward pass is started
_COMPUTED_CPU = 1024  # tokens at a time: with more, what the layers hand on leaves the caches
_ATTENTION = 1.0  # how much slower attention's arithmetic is than that of matrices of weights

R = TypeVar("R")
Request = tuple[Tokens, Tokens]  # context (none: JOINED), continuation


class Fit(IntEnum):
    """Part of a request that is scored: all, a context that is cut at its left, or nothing (the continuation alone is
    longer than the model; there is no border between the two)."""

    WHOLE = 0
    CUT = 1
    TOO_LONG = 2
    JOINED = 3


_WHY = dict.fromkeys(Fit, "") | {Fit.TOO_LONG: TOO_LONG, Fit.JOINED: JOINED}


class Scorer:
    """Scores (context, continuation) token pairs with a Hugging Face causal model in evaluation mode.

    Args:
        max_length: positions that the model has. A longer pair loses tokens at its left, as in lm-eval.
        batch_tokens: tokens (padding included) of one forward pass; fewer where memory does not suffice.

    `cut` counts the requests, of all so far, whose beginning the model did not see. `short`: tokens up to which it has
    other rotary frequencies (argosy.model.infer.forward), or 0."""

    cut: int = 0
    short: int = 0

    def __init__(self, model: Any, max_length: int, batch_tokens: int = 8192, work: Work | None = None,
                 cache: ScoreCache | None = None) -> None:
        self.max_length = max_length
        self.batch_tokens = batch_tokens
        self.work = work or Work()
        self.cache = cache or ScoreCache()
        self.forward = Forward(model)
        self.forward.adapt(max_length)
        self.short = self.forward.short
        self._pair = _pair_cost(model)

    @property
    def branching(self) -> bool:
        """Whether sequences that share a beginning are computed together."""
        return self.forward.branching

    def fit(self, requests: Sequence[Request]) -> list[Fit]:
        """Tell how much of each request the model has positions for."""
        return [Fit.JOINED if not context
                else Fit.TOO_LONG if len(continuation) > self.max_length
                else Fit.CUT if len(context) + len(continuation) - 1 > self.max_length
                else Fit.WHOLE for context, continuation in requests]  # fmt: skip

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """Score each request, in their order.

        A pair that cannot be scored (no tokens in one half, or a continuation beyond `max_length`) has the score
        NOT_SCORED, with the reason, so that one of thousands does not stop the others."""
        queries = [self._query(*request) for request in requests]
        scores = {query: self.cache.get(query) for query in queries if query is not None}
        new = [query for query, score in scores.items() if score is None]
        computed = [(query, each.score) for query, each in zip(new, self._computed(new), strict=True)]
        self.cache.add(computed)
        scores.update(computed)
        return [scores[query] or NOT_SCORED if query is not None else replace(NOT_SCORED, why=_WHY[fit])
                for query, fit in zip(queries, self.fit(requests), strict=True)]  # fmt: skip

    def token_logprobs(self, requests: Sequence[Request]) -> list[NDArray[np.float64]]:
        """Compute the log-probability (nats) of each token of each continuation; NaN where a pair cannot be scored."""
        queries = [self._query(*request) for request in requests]
        each = list(dict.fromkeys(query for query in queries if query is not None))
        scores = dict(zip(each, self._computed(each), strict=True))
        return [np.full(len(continuation), math.nan) if query is None else scores[query].logprobs
                for query, (_, continuation) in zip(queries, requests, strict=True)]  # fmt: skip

    def next_token(self, contexts: Sequence[Tokens]) -> "Iterator[tuple[int, torch.Tensor]]":
        """Yield (index of the context, log-probabilities of the next token [vocabulary], float32), in any order."""
        cut = [context[-self.max_length :] for context in contexts]
        self.cut += sum(len(context) > self.max_length for context in contexts)
        owners: dict[Query, list[int]] = {}
        for index, context in enumerate(cut):
            if context:
                owners.setdefault(Query(context, len(context) - 1, ()), []).append(index)
        for query, values in self.distributions(list(owners), lambda logprobs, _: logprobs[-1]):
            yield from ((index, values) for index in owners[query])

    def distributions(self, queries: Sequence[Query],
                      read: "Callable[[torch.Tensor, Query], R]") -> Iterator[tuple[Query, R]]:
        """Yield (query, what `read` makes of its log-probabilities [place, vocabulary], float32), in any order.

        `queries`: each once."""
        def read_all(parts: Parts, laid: Grid, members: Sequence[Query]) -> list[R]:
            values = torch.cat([log_softmax(blocks) for _, blocks in parts])
            return [read(values[places], query) for places, query in zip(laid.places, members, strict=True)]

        for batch in plan(queries, replace(self._limits(), vocabulary=self.forward.vocabulary)):
            rows = [[queries[index] for index in row] for row in batch.rows]
            results = self.forward.run(batch.prefix, rows, read_all)
            yield from zip((query for row in rows for query in row), results, strict=True)

    def _computed(self, queries: Sequence[Query]) -> list[TokenScores]:
        scores: dict[int, TokenScores] = {}
        batches = plan(queries, self._limits())
        tasks = [(batch.prefix, tuple(tuple(queries[index] for index in row) for row in batch.rows))
                 for batch in batches]  # fmt: skip
        sizes = [sum(map(len, batch.rows)) for batch in batches]
        for number, dumped in self.work.run("scores", tasks, self.compute, sizes):
            members = [index for row in batches[number].rows for index in row]
            scores.update(zip(members, map(TokenScores.load, dumped), strict=True))
        return [scores[index] for index in range(len(queries))]

    def compute(self, task: tuple[Tokens, Sequence[Sequence[Query]]]) -> list[list[list[Any]]]:
        """Compute the scores (dumped) of a batch's queries, row after row. A result that is not a number spreads over a
        whole row, also to where attention is zero, so the queries of such a row are computed apart."""
        prefix, rows = task
        scores = self.forward.run(prefix, rows, _read)
        start = 0
        for row in rows:
            end = start + len(row)
            if len(row) > 1 and any(np.isnan(each.logprobs).any() for each in scores[start:end]):
                scores[start:end] = self.forward.run((), [[query] for query in row], _read)
            start = end
        return [each.dump() for each in scores]

    def _query(self, context: Tokens, continuation: Tokens) -> Query | None:
        if not context or not 0 < len(continuation) <= self.max_length:
            return None
        beyond = max(0, len(context) + len(continuation) - self.max_length - 1)
        self.cut += beyond > 0
        context = context[beyond:]
        return Query(context + continuation[:-1], len(context) - 1, continuation)

    def _limits(self) -> Limits:
        pair = self._pair if self.branching else None
        logits = 0 if self.forward.head == "apart" else self.forward.vocabulary  # of an output, at the same time
        cpu = self.forward.model.device.type == "cpu"
        padding, computed = (_PADDING_CPU, _COMPUTED_CPU) if cpu else (_PADDING, math.inf)
        return Limits(self.batch_tokens, self.max_length, logits, pair, padding, self.short, computed)


def _read(parts: Parts, laid: Grid, queries: Sequence[Query]) -> list[TokenScores]:
    outputs = np.concatenate(laid.places)
    ids = np.array([token for query in queries for token in query.targets], dtype=np.int64)
    logprobs, greedy = np.empty(len(ids)), np.empty(len(ids), dtype=np.bool_)
    for here, blocks in parts:
        which = np.flatnonzero((outputs >= here.start) & (outputs < here.stop))
        at, token = torch.from_numpy(outputs[which] - here.start), torch.from_numpy(ids[which])
        values, first = target_logprobs(blocks, at, token)
        logprobs[which], greedy[which] = values.double().cpu().numpy(), first.cpu().numpy()
    bounds = np.cumsum([len(query.targets) for query in queries])[:-1]
    return [TokenScores(*each) for each in zip(np.split(logprobs, bounds), np.split(greedy, bounds), strict=True)]


def _pair_cost(model: Any) -> float:
    """Estimate the work of one token's attention to another, in tokens computed: a token takes two operations a weight
    of the layers, a pair four a hidden unit and layer."""
    config = model.config.get_text_config()
    ends = (layer for layer in (model.get_input_embeddings(), model.get_output_embeddings()) if layer is not None)
    outer = {id(p) for layer in ends for p in layer.parameters()}  # of both, where the two are tied
    inner = sum(p.numel() for p in model.parameters() if id(p) not in outer)
    layers, hidden = getattr(config, "num_hidden_layers", 1), getattr(config, "hidden_size", 1)
    return float(_ATTENTION * 2 * hidden * layers / max(1, inner))
