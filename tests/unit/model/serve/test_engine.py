"""The engine's queue: what it refuses, and what a client that hangs up leaves."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import Message

from argosy.model.serve.batch import Sampling
from argosy.model.serve.engine import Busy, Engine
from argosy.model.serve.form import Stream
from argosy.model.serve.protocol import ChatRequest, Refusal, TextRequest, parse
from tests.evaluation_fixtures import make_model

LONG, SHORT = Sampling(100_000, frozenset(), 0.0), Sampling(3, frozenset(), 0.0)
CHAT = {"model": "a", "messages": [{"role": "user", "content": "a"}]}


@pytest.fixture
def model() -> Any:
    return make_model(30)


@pytest.fixture
def engine(model: Any) -> Iterator[Engine]:
    found = Engine(model, rows=1, queue=1)
    yield found
    found.end()


async def read(engine: Engine, sampling: Sampling) -> list[int]:
    return [token.id async for token in engine.answer([1, 2], sampling)]


def test_a_queue_of_nothing_answers_one_after_the_other(model: Any) -> None:
    engine = Engine(model, rows=1, queue=0)

    async def asked() -> list[list[int]]:
        found = [await read(engine, SHORT) for _ in range(20)]
        long = engine.answer([1], LONG)
        await anext(long)
        with pytest.raises(Busy):
            await read(engine, SHORT)
        await long.aclose()  # type: ignore[attr-defined]
        return found

    answers = asyncio.run(asked())
    engine.end()
    assert answers == [answers[0]] * 20
    assert len(answers[0]) == 3


def test_a_client_that_hangs_up_while_it_waits_frees_its_place_at_once(engine: Engine) -> None:
    async def asked() -> list[int]:
        long = engine.answer([1], LONG)
        await anext(long)
        waiting = asyncio.create_task(read(engine, SHORT))
        await asyncio.sleep(0)
        assert engine.waiting == 1
        with pytest.raises(Busy):
            await read(engine, SHORT)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (engine.running, engine.waiting) == (1, 0)
        following = asyncio.create_task(read(engine, SHORT))
        await asyncio.sleep(0)
        await long.aclose()  # type: ignore[attr-defined]
        return await following

    assert len(asyncio.run(asked())) == 3


def test_a_stream_whose_client_hangs_up_between_two_events_ends_its_iterator() -> None:
    ended: list[bool] = []

    async def events() -> Any:
        try:
            for number in range(3):
                yield str(number)
        finally:
            ended.append(True)

    async def asked() -> None:
        sent, response = asyncio.Event(), Stream(events())

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                sent.set()
                await asyncio.Event().wait()  # a client that reads no more

        async def receive() -> Message:
            await sent.wait()
            return {"type": "http.disconnect"}

        await response({"type": "http"}, receive, send)
        assert ended == [True]
        assert response  # which nobody has collected

    asyncio.run(asked())


def test_two_limits_that_differ_and_a_template_of_the_client_are_refused() -> None:
    assert parse(ChatRequest, CHAT | {"max_tokens": 5, "max_completion_tokens": None}).max_tokens == 5
    assert parse(ChatRequest, CHAT | {"max_completion_tokens": 6}).max_tokens == 6
    for fields, says in (({"max_tokens": 5, "max_completion_tokens": 6}, "differ"),
                         ({"chat_template_kwargs": {"chat_template": "a"}}, "chat_template is not allowed")):
        with pytest.raises(Refusal, match=says):
            parse(ChatRequest, CHAT | fields)
    with pytest.raises(Refusal, match="prompt: the list is empty"):
        parse(TextRequest, {"model": "a", "prompt": []})
