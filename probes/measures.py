"""Probabilities of a text after a prefix, over tokens and over bytes, and computations that several kinds share.

`logprob` is the chain rule over the text's own tokens. `logmass` is what a tokenizer cannot change: the probability
that the next bytes begin with the text, summed over the ways to get there: tokens of a beginning of the text, then one
token that covers the rest (cover encodings: Phan et al., "Exact Byte-Level Probabilities from Tokenized Language
Models", 2024; Vieira et al., "From Language Models over Tokens to Models over Characters", 2024). `{"` counts for `{`.

Where the text's first bytes merge with the prefix's last ones into one token (a space at the prefix's end, "答案" and
"：" as one token), the tokens before the merge are the condition, and both values are divided by the probability that
the prefix's remaining bytes come at all (token healing)."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from argosy.model.infer.encoder import TokenBytes, token_bytes
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import Score, Tokens, common, problem

UNKNOWN = "the tokenizer does not know a character of the text"
NO_TOKENS = "the text adds no token to the prefix"
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]|[^\s\u3040-\u30ff\u3400-\u9fff]+")


def distinct(texts: Iterable[str]) -> list[str]:
    """Leave out texts that another one begins: where "Paris" counts, "Paris, France" is counted already."""
    each = list(dict.fromkeys(texts))
    return [text for text in each if not any(text != other and text.startswith(other) for other in each)]


def exclusive(texts: Sequence[str]) -> bool:
    """Whether none is empty, nor begins another one: only then their probabilities are of different events."""
    return all(texts) and len(distinct(texts)) == len(texts)


def log_sum(logs: Iterable[float]) -> float:
    """Log of the sum of probabilities given as logs; -inf for none."""
    values = list(logs)
    top = max(values, default=-math.inf)
    if not math.isfinite(top):
        return top
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def count_words(text: str) -> int:
    """Count words: they are between spaces; in Chinese and Japanese, which have none, each character is one.
    Punctuation that stands alone is none.

    Perplexity a word is over these ("don't" is one); `argosy.corpus.text.scripts.words`, by which filters find copies,
    parts words at punctuation."""
    return sum(any(map(str.isalnum, word)) for word in _WORD.findall(text))


@dataclass(frozen=True)
class Continuation:
    """The probability of a text after a prefix."""

    logprob: float = math.nan
    """nats"""
    logmass: float = math.nan
    """nats"""
    rank: int = 0
    """rank of the first token (1 = the likeliest)"""
    tokens: int = 0
    merged: bool = False
    """the text shares a token with its prefix"""
    problem: str = ""
    """why there are no values"""


@dataclass
class _Split:
    """A text after a prefix, as tokens: `context`, then `tokens`."""

    context: Tokens
    tokens: Tokens
    tail: bytes
    """bytes of `tokens` that are the prefix's"""
    target: bytes | None
    """bytes of `tokens`; None: a special token is among them"""
    merged: bool
    nodes: list[Tokens] = field(default_factory=list)
    """beginnings of the text as tokens; the empty one first"""
    rank: int = 0
    covers: list[tuple[int, float]] = field(default_factory=list)
    """(node, log-probability of the tokens that cover the rest)"""
    tails: list[tuple[int, float]] = field(default_factory=list)
    """the same for the prefix's own bytes"""


def continuations(model: LanguageModel, pairs: Sequence[tuple[str, str]]) -> list[Continuation]:
    """Compute the probability of each (prefix, text); prefix "" is the start of a document."""
    table = token_bytes(model.tokenizer)
    splits = [_split(model, table, prefix, text) for prefix, text in pairs]
    usable = [split for split in splits if isinstance(split, _Split)]
    _distributions(model, table, usable)
    requests = [(split.context, tokens) for split in usable for tokens in (split.tokens, *split.nodes[1:])]
    scores = iter(model.scorer.score(requests))
    results = []
    for split in splits:
        if isinstance(split, str):
            results.append(Continuation(problem=split))
            continue
        results.append(_continuation(split, [next(scores) for _ in split.nodes]))
    return results


def grouped_continuations(model: LanguageModel, cases: Sequence[Sequence[Sequence[tuple[str, str]]]],
                          left_out: Counter[str]) -> Iterator[tuple[int, list[list[Continuation]]]]:
    """Yield (index of the case, its groups of continuations); a case with a problem is left out by its reason."""
    results = iter(continuations(model, [pair for groups in cases for group in groups for pair in group]))
    for index, groups in enumerate(cases):
        own = [[next(results) for _ in group] for group in groups]
        if problem := next((each.problem for group in own for each in group if each.problem), ""):
            left_out[problem] += 1
        else:
            yield index, own


def _split(model: LanguageModel, table: TokenBytes, prefix: str, text: str) -> _Split | str:
    before, whole = _encode(model, prefix, bare=not prefix), _encode(model, prefix + text, bare=not prefix)
    cut = common(before, whole)
    tokens = whole[cut:]
    if not tokens:
        return NO_TOKENS
    if model.tokenizer.unk_token_id in tokens:
        return UNKNOWN
    tail, target = table.join(before[cut:]) or b"", table.join(tokens)
    merged = cut < len(before)
    if target is None or not target.startswith(tail):
        tail, target = b"", None
    split = _Split(whole[:cut] or (model.prefix_token,), tokens, tail, target, merged, [()])
    if target is not None:
        starts = [(prefix + text)[:size] for size in range(max(1, len(prefix) - len(tail)), len(prefix + text) + 1)]
        begun = [_encode(model, start, bare=not prefix) for start in starts]
        own = [tokens[cut:] for tokens in begun if tokens[:cut] == whole[:cut]]
        split.nodes += _nodes(table, own, target)
    return split


def _nodes(table: TokenBytes, starts: list[Tokens], target: bytes) -> list[Tokens]:
    """List distinct ways to begin `target`: the first tokens of its beginnings, as the tokenizer writes those."""
    nodes: dict[Tokens, None] = {}
    for own in starts:
        for size in range(1, len(own) + 1):
            reached = table.join(own[:size])
            if reached and len(reached) < len(target) and target.startswith(reached):
                nodes[own[:size]] = None
    return list(nodes)


def _distributions(model: LanguageModel, table: TokenBytes, splits: list[_Split]) -> None:
    """Fill in ranks, and covers of the rest after each node, one distribution at a time."""
    places = [(split, number) for split in splits for number in range(len(split.nodes))]
    contexts = [split.context + split.nodes[number] for split, number in places]
    for index, logprobs in model.scorer.next_token(contexts):
        split, number = places[index]
        if number == 0:
            among = logprobs
            if split.tail:  # only tokens that agree with the prefix's last bytes
                among = logprobs[table.starting_with(split.tail) + table.within(split.tail)]
            split.rank = 1 + int((among > logprobs[split.tokens[0]]).sum())
        reached = table.join(split.nodes[number]) or b""
        for goal, into in ((split.target, split.covers), (split.tail, split.tails)):
            if goal and len(reached) < len(goal):
                ids = table.starting_with(goal[len(reached) :])
                into.append((number, float(logprobs[ids].double().logsumexp(0)) if ids else -math.inf))


def _continuation(split: _Split, scores: Sequence[Score]) -> Continuation:
    """Add up the ways to the text; `scores`: of its own tokens, and of each node but the empty one."""
    if why := problem(scores):
        return Continuation(problem=why)
    logprob, *rest = (score.logprob for score in scores)
    nodes = [0.0, *rest]
    given = log_sum(nodes[number] + value for number, value in split.tails) if split.tail else 0.0
    covered = logprob
    if split.target is not None:
        covered = log_sum(nodes[number] + value for number, value in split.covers)
    return Continuation(min(0.0, logprob - given), min(0.0, covered - given), split.rank, len(split.tokens),
                        split.merged)  # fmt: skip


def _encode(model: LanguageModel, text: str, bare: bool) -> Tokens:
    """Encode a text; `bare`: as a document of its own, after the prefix token alone."""
    if bare:
        return (model.prefix_token, *(model.encode([text], special=False)[0] if text else ()))
    return model.encode([text])[0]


def closed_set(candidates: Sequence[str], values: Sequence[Sequence[float]]) -> tuple[list[int], dict[str, Any]]:
    """Find the candidate that each wording chooses, and `acc`, `acc_byte` and `prob` over the wordings.

    `candidates`: the right one first; it has to be strictly likelier than the others. `values`: log-probabilities of
    the candidates in each wording."""
    sizes = [len(candidate.encode()) for candidate in candidates]
    chosen = [max(range(len(v)), key=lambda index, v=v: (v[index], index)) for v in values]  # type: ignore[misc]
    by_byte = [[value / size for value, size in zip(v, sizes, strict=True)] for v in values]
    shares = [1 / math.fsum(math.exp(min(value - v[0], 700.0)) for value in v) for v in values]
    n = len(values)
    return chosen, {"acc": chosen.count(0) / n, "acc_byte": sum(v[0] > max(v[1:]) for v in by_byte) / n,
                    "prob": sum(shares) / n}  # fmt: skip


def branch_scores(model: LanguageModel, groups: Sequence[Sequence[str]]) -> list[list[Score]]:
    """Score each group's sentences (nats), less the beginning that they share.

    The tokens that all of a group begin with, each sentence being tokenised whole from the start of a document, are
    computed once and count for none: differences within a group are those of the whole sentences."""
    requests: list[tuple[Tokens, Tokens]] = []
    for group in groups:
        encoded = [(model.prefix_token, *tokens) for tokens in model.encode(list(group), special=False)]
        shared = _shared(encoded)
        requests += [(tokens[:shared], tokens[shared:]) for tokens in encoded]
    scores = iter(model.scorer.score(requests))
    return [[next(scores) for _ in group] for group in groups]


def _shared(group: Sequence[Tokens]) -> int:
    """Count the tokens that all begin with; each keeps at least one of its own."""
    first, last = min(group), max(group)  # what the first and the last in order share, all share
    most = min(len(tokens) for tokens in group) - 1
    return next((n for n in range(most) if first[n] != last[n]), most)
