"""A checkpoint that Argosy's own engine answers with, in OpenAI's protocol."""

import asyncio
import random
import threading
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from argosy.core.errors import InputError
from argosy.core.sandbox.templates import TemplateRefusal
from argosy.model.infer.encoder import token_bytes
from argosy.model.infer.model import LanguageModel
from argosy.model.serve.batch import Sampling, Token
from argosy.model.serve.engine import Busy, Engine, Failed
from argosy.model.serve.form import Form, Piece, Stream, Text, events, unless_gone
from argosy.model.serve.metrics import Metrics
from argosy.model.serve.protocol import ChatRequest, Completion, Refusal, TextRequest, parse


class LocalModel:
    """A language model with its engine.

    Args:
        name: what requests call it.
        limit: most tokens of an answer; None: what the context has room for.
        rows, queue: those of Engine."""

    def __init__(self, name: str, model: LanguageModel, metrics: Metrics, *, limit: int | None = None, rows: int = 32,
                 queue: int = 256) -> None:
        self.name, self.model, self.metrics, self.limit = name, model, metrics, limit
        self.engine = Engine(model.model, rows, queue)
        self._bytes = token_bytes(model.tokenizer)
        self._lock = threading.Lock()  # a tokenizer answers one thread at a time

    @property
    def alive(self) -> bool:
        """Whether it answers."""
        return self.engine.alive

    def gauges(self) -> list[tuple[str, float, dict[str, str]]]:
        """Numbers that are measured now."""
        return [("running", self.engine.running, {"model": self.name}),
                ("waiting", self.engine.waiting, {"model": self.name})]

    async def end(self) -> None:
        """Stop the engine."""
        await asyncio.to_thread(self.engine.end)

    async def handle(self, path: str, body: Any, request: Request) -> Response:
        """Answer a request to `path`, `chat/completions` or `completions`. Raises Refusal."""
        chat = path == "chat/completions"
        given = parse(ChatRequest if chat else TextRequest, body)
        if chat and not self.model.tokenizer.chat_template:
            raise Refusal(400, f"{self.name} has no chat template: ask /v1/completions", code="no_chat_template")
        prompts = await asyncio.to_thread(self._chat_prompt if chat else self._prompts, given)
        samplings = [self._sampling(given, len(prompt), chat) for prompt in prompts]
        self.metrics.count("prompt_tokens_total", sum(map(len, prompts)), model=self.name)
        self._check_room(len(prompts) * given.n)
        asked = [(prompt, own) for prompt, several in zip(prompts, samplings, strict=True) for own in several]
        form = Form(given, uuid.uuid4().hex, given.model, sum(map(len, prompts)), self._tokens)
        begun = time.monotonic()
        pieces = _together([self._choice(number, *each, given.stop, begun) for number, each in enumerate(asked)])
        if given.stream:
            return Stream(events(pieces, form), media_type="text/event-stream")
        whole = await unless_gone(request, _collected(pieces, len(asked)))
        return Response(status_code=499) if whole is None else JSONResponse(form.whole(whole))

    def _check_room(self, wanted: int) -> None:
        engine = self.engine
        if wanted > engine.most:
            raise Refusal(400, f"n times prompts is {wanted}; allowed here: 1 to {engine.most}", field="n")
        if engine.running + engine.waiting + wanted > engine.most:
            raise Refusal(429, f"{engine.running} answers are being made and {engine.waiting} wait: try again",
                          "rate_limit_error", code="queue_full", headers={"Retry-After": "2"})

    def _chat_prompt(self, given: ChatRequest) -> list[list[int]]:
        how = {**given.chat_template_kwargs, **({"tools": given.tools} if given.tools else {})}
        with self._lock:
            try:
                text = self.model.render(given.messages, **how)
            except (TemplateRefusal, InputError, TypeError) as error:
                why = error.reason if isinstance(error, TemplateRefusal) else error  # without our directories
                raise Refusal(400, f"messages: {why}", field="messages") from None
            return [list(self.model.encode([text])[0])]

    def _prompts(self, given: TextRequest) -> list[list[int]]:
        texts = [each for each in given.prompts if isinstance(each, str)]
        size = self.model.model.config.get_text_config().vocab_size
        for each in given.prompts:
            if not isinstance(each, str) and (wrong := [token for token in each if not 0 <= token < size]):
                raise Refusal(400, f"prompt: token {wrong[0]} is none of the model's {size}", field="prompt")
        with self._lock:
            encoded = iter(self.model.encode(texts))
        return [list(next(encoded) if isinstance(each, str) else each) or [self.model.prefix_token]
                for each in given.prompts]

    def _sampling(self, given: Completion, size: int, chat: bool) -> list[Sampling]:
        """Settings of each answer to a prompt of `size` tokens."""
        room = self.model.max_length - size
        most = min(room, self.limit or room)
        named = given.max_tokens if "max_tokens" in given.model_fields_set else None
        wanted = named or min(given.max_tokens or most, most)
        if room < 1 or (named or 1) > room:
            raise Refusal(400, f"the context has {self.model.max_length} tokens, and the prompt {size}"
                          + (f" with max_tokens {named}" if named else "")
                          + ": shorten the prompt or max_tokens", code="context_length_exceeded")  # fmt: skip
        if self.limit and wanted > self.limit:
            raise Refusal(400, f"max_tokens is {wanted}, allowed here: 1 to {self.limit}", field="max_tokens")
        seed = random.getrandbits(63) if given.seed is None else given.seed % 2**64
        ends = frozenset(self.model.ends(chat=chat))
        return [Sampling(wanted, ends, given.temperature, given.top_p, (seed + copy) % 2**64, given.top)
                for copy in range(given.n)]

    async def _choice(self, number: int, prompt: list[int], sampling: Sampling, stops: Sequence[str],
                      begun: float) -> AsyncIterator[Piece]:
        """Yield the pieces of one answer, up to its end, limit or first stop text."""
        text, made, reason = Text(self.model.decode, stops), 0, ""
        answer = self.engine.answer(prompt, sampling)
        try:
            async for token in answer:
                made += 1
                if made == 1:
                    self.metrics.time("first_token_seconds", time.monotonic() - begun, model=self.name)
                reason = "stop" if token.id in sampling.ends else "length" if made == sampling.max_tokens else ""
                new = "" if reason == "stop" else text.add(token.id)
                if text.stopped:
                    reason = "stop"
                yield Piece(number, new + (text.end() if reason and not text.stopped else ""),
                            [] if token.id in sampling.ends else [token], "" if text.stopped else reason)
                if text.stopped:
                    yield Piece(number, reason="stop")
                    return
        except Busy:
            raise Refusal(429, "the queue is full: try again", "rate_limit_error", code="queue_full",
                          headers={"Retry-After": "2"}) from None
        except Failed as error:
            raise Refusal(503, str(error), "server_error") from None
        finally:
            await answer.aclose()  # type: ignore[attr-defined]
            self.metrics.count("answer_tokens_total", made, model=self.name)
            self.metrics.time("request_seconds", time.monotonic() - begun, model=self.name)

    def _tokens(self, tokens: Sequence[Token]) -> list[dict[str, Any]]:
        """Write tokens with their log-probabilities as chat completions have them."""
        return [{**self._token(each.id, each.logprob),
                 "top_logprobs": [self._token(token, logprob) for token, logprob in each.likeliest]} for each in tokens]

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        found = self._bytes.of[token] if token < len(self._bytes.of) else None
        text = self.model.tokenizer.decode([token]) if found is None else found.decode("utf-8", "replace")
        return {"token": text, "logprob": logprob, "bytes": list(text.encode() if found is None else found)}


async def _together(choices: Sequence[AsyncIterator[Piece]]) -> AsyncIterator[Piece]:
    """Yield what comes of several choices, as it comes; whoever stops listening ends them all."""
    news: asyncio.Queue[Piece | BaseException | None] = asyncio.Queue()

    async def pump(choice: AsyncIterator[Piece]) -> None:
        try:
            async for piece in choice:
                news.put_nowait(piece)
            news.put_nowait(None)
        except Exception as error:
            news.put_nowait(error)
        finally:
            await choice.aclose()  # type: ignore[attr-defined]

    tasks = [asyncio.create_task(pump(choice)) for choice in choices]
    going = len(tasks)
    try:
        while going:
            piece = await news.get()
            if isinstance(piece, BaseException):
                raise piece
            if piece is None:
                going -= 1
            else:
                yield piece
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _collected(pieces: AsyncIterator[Piece], choices: int) -> list[Piece]:
    whole = [Piece(number) for number in range(choices)]
    async for piece in pieces:
        own = whole[piece.choice]
        own.text, own.reason = own.text + piece.text, piece.reason or own.reason
        own.tokens += piece.tokens
    return whole
