"""How likely a text follows a prefix, over tokens and over bytes.

`logprob` is the chain rule over the text's own tokens. `logmass` is what a tokenizer cannot change: the probability
that the next bytes begin with the text, summed over the ways to get there: tokens of a beginning of the text, then one
token that covers the rest (cover encodings: Phan et al., "Exact Byte-Level Probabilities from Tokenized Language
Models", 2024; Vieira et al., "From Language Models over Tokens to Models over Characters", 2024). `{"` counts for `{`.

Where the text's first bytes merge with the prefix's last ones into one token (a space at the prefix's end, "答案" and
"：" as one token), the tokens before the merge are the condition, and both values are divided by the probability that
the prefix's remaining bytes come at all (token healing).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.rows import Tokens
from argosy.evaluation.token_bytes import TokenBytes, token_bytes
from probes.measures import log_sum

UNKNOWN = "the tokenizer does not know a character of the text"
NO_TOKENS = "the text adds no token to the prefix"
NOT_A_NUMBER = "not a number"


@dataclass(frozen=True)
class Continuation:
    """Nats. `rank`: of the first token (1 = the likeliest). `merged`: the text shares a token with its prefix.
    `problem`: why there are no values, else ""."""

    logprob: float = math.nan
    logmass: float = math.nan
    rank: int = 0
    tokens: int = 0
    merged: bool = False
    problem: str = ""


@dataclass
class _Ask:
    """One text after one prefix, as tokens: `context`, then `tokens`, of which the bytes `tail` are the prefix's."""

    context: Tokens
    tokens: Tokens
    tail: bytes
    target: bytes | None  # bytes of `tokens`; None: a special token is among them
    merged: bool
    nodes: list[Tokens] = field(default_factory=list)  # beginnings of the text as tokens; the empty one first
    rank: int = 0
    covers: list[tuple[int, float]] = field(default_factory=list)  # (node, log of what covers the rest)
    tails: list[tuple[int, float]] = field(default_factory=list)  # the same for the prefix's own bytes


def continuations(model: LanguageModel, pairs: Sequence[tuple[str, str]], mass: bool = True) -> list[Continuation]:
    """Of each (prefix, text); prefix "" is the start of a document.

    Args:
        mass: compute `logmass`, which needs the distribution after each beginning of the text; else it is NaN where
            the text is more than one token.
    """
    table = token_bytes(model.tokenizer)
    asks = [_ask(model, table, prefix, text, mass) for prefix, text in pairs]
    usable = [ask for ask in asks if isinstance(ask, _Ask)]
    _distributions(model, table, usable)
    scored = [(ask, tokens) for ask in usable for tokens in (ask.tokens, *ask.nodes[1:])]
    scores = iter(model.scorer.score([(ask.context, tokens) for ask, tokens in scored]))
    found = []
    for ask in asks:
        if isinstance(ask, str):
            found.append(Continuation(problem=ask))
            continue
        logprob = next(scores).logprob
        nodes = [0.0, *(next(scores).logprob for _ in ask.nodes[1:])]
        found.append(_continuation(ask, logprob, nodes, mass))
    return found


def _ask(model: LanguageModel, table: TokenBytes, prefix: str, text: str, mass: bool) -> _Ask | str:
    before, whole = _encode(model, prefix, bare=not prefix), _encode(model, prefix + text, bare=not prefix)
    cut = _common(before, whole)
    tokens = whole[cut:]
    if not tokens:
        return NO_TOKENS
    if model.tokenizer.unk_token_id in tokens:
        return UNKNOWN
    tail, target = table.join(before[cut:]) or b"", table.join(tokens)
    merged = cut < len(before)
    if target is None or not target.startswith(tail):
        tail, target = b"", None
    ask = _Ask(whole[:cut] or (model.prefix_token,), tokens, tail, target, merged, [()])
    if target is not None and (mass or tail):
        end = len(prefix + text) if mass else len(prefix)
        starts = [(prefix + text)[:size] for size in range(max(1, len(prefix) - len(tail)), end + 1)]
        begun = [_encode(model, start, bare=not prefix) for start in starts]
        own = [tokens[cut:] for tokens in begun if tokens[:cut] == whole[:cut]]
        ask.nodes += _nodes(table, own, target)
    return ask


def _nodes(table: TokenBytes, starts: list[Tokens], target: bytes) -> list[Tokens]:
    """Distinct ways to begin `target`: the first tokens of its beginnings, as the tokenizer writes those."""
    found: dict[Tokens, None] = {}
    for own in starts:
        for size in range(1, len(own) + 1):
            reached = table.join(own[:size])
            if reached and len(reached) < len(target) and target.startswith(reached):
                found[own[:size]] = None
    return list(found)


def _distributions(model: LanguageModel, table: TokenBytes, asks: list[_Ask]) -> None:
    """Fill in ranks and what covers the rest after each node, one distribution at a time."""
    places = [(ask, number) for ask in asks for number in range(len(ask.nodes))]
    contexts = [ask.context + ask.nodes[number] for ask, number in places]
    for index, logprobs in model.scorer.next_token(contexts):
        ask, number = places[index]
        if number == 0:
            among = logprobs
            if ask.tail:  # only tokens that agree with the prefix's last bytes
                among = logprobs[table.starting_with(ask.tail) + table.within(ask.tail)]
            ask.rank = 1 + int((among > logprobs[ask.tokens[0]]).sum())
        reached = table.join(ask.nodes[number]) or b""
        for goal, into in ((ask.target, ask.covers), (ask.tail, ask.tails)):
            if goal and len(reached) < len(goal):
                ids = table.starting_with(goal[len(reached) :])
                into.append((number, float(logprobs[ids].double().logsumexp(0)) if ids else -math.inf))


def _continuation(ask: _Ask, logprob: float, nodes: list[float], mass: bool) -> Continuation:
    if not math.isfinite(logprob) or not all(map(math.isfinite, nodes)):
        return Continuation(problem=NOT_A_NUMBER)
    given = log_sum(nodes[number] + value for number, value in ask.tails) if ask.tail else 0.0
    covered = logprob
    if ask.target is not None:
        covered = log_sum(nodes[number] + value for number, value in ask.covers)
    known = mass or ask.target is None or len(ask.tokens) == 1
    logmass = min(0.0, covered - given) if known else math.nan
    return Continuation(min(0.0, logprob - given), logmass, ask.rank, len(ask.tokens), ask.merged)


def _encode(model: LanguageModel, text: str, bare: bool) -> Tokens:
    """`bare`: the text is a document of its own, after the prefix token alone."""
    if bare:
        return (model.prefix_token, *(model.encode([text], special=False)[0] if text else ()))
    tokens = model.encode([text])[0]
    eos = model.tokenizer.eos_token_id
    if len(tokens) > 1 and tokens[-1] == eos and not text.endswith(model.tokenizer.eos_token or ""):
        tokens = tokens[:-1]  # a tokenizer that closes each text: this one goes on
    return tokens


def _common(a: Tokens, b: Tokens) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
