"""The form of answers: their text while tokens come in (whole characters alone, and nothing that may begin a stop
text), and their JSON, whole and as server-sent events, in OpenAI's protocol."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from argosy.model.serve.batch import Token
from argosy.model.serve.protocol import ChatRequest, Completion, Refusal

_BROKEN = "�"  # what a piece of a character is decoded to


class Text:
    """Text of an answer as it grows.

    Args:
        decode: the text of token ids, without special tokens.
        stops: texts that end the answer, and are not part of it.

    Attributes:
        stopped: whether a stop text has come."""

    def __init__(self, decode: Callable[[list[int]], str], stops: Sequence[str] = ()) -> None:
        self._decode, self._stops = decode, stops
        self._ids: list[int] = []
        self._from = self._to = 0  # tokens that decoding begins with, and those whose text is in `_held` or given out
        self._held = ""
        self.stopped = False

    def add(self, token: int) -> str:
        """Take the next token; returns the text that is certain now."""
        self._ids.append(token)
        new = self._new()
        if new.endswith(_BROKEN):
            return ""
        self._from, self._to = self._to, len(self._ids)
        return self._give(new, last=False)

    def end(self) -> str:
        """Return the rest, once no token comes any more."""
        new, self._to = self._new(), len(self._ids)
        return self._give(new, last=True)

    def _new(self) -> str:
        """Text of the tokens that have not been given out; they are decoded with some before them, as a tokenizer may
        treat the first of a text in its own way."""
        before = self._decode(self._ids[self._from : self._to])
        return self._decode(self._ids[self._from :])[len(before) :]

    def _give(self, new: str, *, last: bool) -> str:
        text = self._held + new
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found or self.stopped:
            self.stopped, self._held = True, ""
            return text[: min(found)] if found else ""
        # the longest end of the text that a stop begins with
        keep = 0 if last else max((size for stop in self._stops for size in range(min(len(text), len(stop) - 1), 0, -1)
                                   if text.endswith(stop[:size])), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


@dataclass
class Piece:
    """The news of one choice: certain text, tokens, and why it has ended ("" where it has not)."""

    choice: int
    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    reason: str = ""


class Form:
    """The JSON of one request's answers."""

    def __init__(self, given: Completion, number: str, model: str, prompt: int,
                 tokens: Callable[[Sequence[Token]], list[dict[str, Any]]]) -> None:
        self.chat, self.given, self._tokens, self.prompt = isinstance(given, ChatRequest), given, tokens, prompt
        self.made = 0
        kind = "chat.completion" if self.chat else "text_completion"
        name = f"{'chatcmpl' if self.chat else 'cmpl'}-{number}"
        self._about = {"id": name, "created": int(time.time()), "model": model}
        self._kind, self._chunk = kind, f"{kind}.chunk" if self.chat else kind

    @property
    def usage(self) -> dict[str, int]:
        return {"prompt_tokens": self.prompt, "completion_tokens": self.made, "total_tokens": self.prompt + self.made}

    def whole(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        """All choices at once."""
        self.made = sum(len(each.tokens) for each in pieces)
        choices = [self._choice(each, {"message": {"role": "assistant", "content": each.text}}) for each in pieces]
        return {**self._about, "object": self._kind, "choices": choices, "usage": self.usage}

    def chunk(self, piece: Piece) -> dict[str, Any]:
        """A part of one choice."""
        self.made += len(piece.tokens)
        choice = self._choice(piece, {"delta": {"content": piece.text} if piece.text else {}})
        return {**self._about, "object": self._chunk, "choices": [choice]}

    def first(self, choice: int) -> dict[str, Any]:
        """The chunk that a chat's stream begins with."""
        delta = {"role": "assistant", "content": ""}
        return {**self._about, "object": self._chunk,
                "choices": [{"index": choice, "delta": delta, "logprobs": None, "finish_reason": None}]}

    def last(self) -> dict[str, Any]:
        """The chunk with the usage."""
        return {**self._about, "object": self._chunk, "choices": [], "usage": self.usage}

    def _choice(self, piece: Piece, words: dict[str, Any]) -> dict[str, Any]:
        scored = self.given.top is not None and bool(piece.tokens)
        tokens = self._tokens(piece.tokens) if scored else []
        shape = words if self.chat else {"text": piece.text}
        logprobs: Any = ({"content": tokens} if self.chat else _flat(tokens)) if scored else None
        return {"index": piece.choice, **shape, "logprobs": logprobs, "finish_reason": piece.reason or None}


def _flat(tokens: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Log-probabilities as completions have them."""
    return {"tokens": [each["token"] for each in tokens], "token_logprobs": [each["logprob"] for each in tokens],
            "top_logprobs": [{top["token"]: top["logprob"] for top in reversed(each["top_logprobs"])}
                             for each in tokens]}  # of two tokens of one text the likelier


async def events(pieces: AsyncIterator[Piece], form: Form) -> AsyncIterator[str]:
    """Write server-sent events; an error after the first one is an event too."""
    begun: set[int] = set()
    try:
        async for piece in pieces:
            if form.chat and piece.choice not in begun:
                begun.add(piece.choice)
                yield _event(form.first(piece.choice))
            if piece.text or piece.reason or form.given.top is not None:
                yield _event(form.chunk(piece))
            else:
                form.made += len(piece.tokens)
        if form.given.stream_options.include_usage:
            yield _event(form.last())
        yield "data: [DONE]\n\n"
    except Refusal as error:
        yield _event(error.body)
    finally:
        await pieces.aclose()  # type: ignore[attr-defined]


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


class Stream(StreamingResponse):
    """A response whose iterator ends with it: at once where the client hangs up between two events."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.body_iterator.aclose()  # type: ignore[attr-defined]


async def unless_gone(request: Request, work: Any) -> Any:
    """Return the result of `work`, or None where the client hangs up before it."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_hang_up(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _hang_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
