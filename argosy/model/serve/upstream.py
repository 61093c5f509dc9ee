"""A checkpoint that vLLM or SGLang answers with: their server's process, and requests handed on to it as they are."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from starlette.requests import Request
from starlette.responses import Response

from argosy.core.errors import InputError
from argosy.model.infer.keeper import KeptServer
from argosy.model.serve.form import Stream, unless_gone
from argosy.model.serve.protocol import Refusal
from argosy.model.weights.adapters.files import is_adapter, served_adapter

_START_S = 1800.0  # loading and compiling a large model takes minutes
_COMMANDS = {"vllm": ("vllm", "serve"), "sglang": ("python", "-m", "sglang.launch_server", "--model-path")}


class UpstreamModel:
    """A server of another engine, started here.

    Args:
        name: what requests call the model.
        command: the engine's program, before its own arguments; empty: `vllm`, or `python -m sglang.launch_server`.
        arguments: added to its command line, such as --tensor-parallel-size 2.
        log: file of its output.

    Raises InputError: its program is not there, or the engine does not add this adapter; StepError: it does not start.
    """

    def __init__(self, name: str, model: Path, engine: str, port: int, log: Path, command: Sequence[str] = (),
                 arguments: Sequence[str] = ()) -> None:
        parts = [*_COMMANDS[engine]]
        if command:
            parts[: 1 if engine == "vllm" else 3] = command
        if not shutil.which(parts[0]):
            raise InputError(f"--engine {engine} starts {parts[0]!r}, which is no program here: install {engine} in an "
                             "environment of its own (docs/install.md) and name its program with --engine-command")
        self.name = name
        served = ["--served-model-name", name]
        if is_adapter(model):  # its base is there as `base` too
            base, rank = served_adapter(model, engine)
            served = ["--served-model-name", "base", "--tokenizer", str(model), "--generation-config", str(model),
                      "--enable-lora", "--max-lora-rank", str(rank), "--lora-modules", f"{name}={model.resolve()}"]
            model = base
        self._server = KeptServer([*parts, str(model), *served, "--host", "127.0.0.1", "--port", str(port), *arguments],
                                  f"http://127.0.0.1:{port}", log)
        self._server.wait(_START_S)
        self._session: aiohttp.ClientSession | None = None

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._server.alive

    def gauges(self) -> list[tuple[str, float, dict[str, str]]]:
        """Nothing: its own server has its numbers."""
        return []

    async def end(self) -> None:
        """End the process, with all that it has started."""
        if self._session:
            await self._session.close()
        await asyncio.to_thread(self._server.close)

    async def handle(self, path: str, body: Any, request: Request) -> Response:
        """Hand a request on; a stream is handed back as it comes. Raises Refusal: the engine does not answer."""
        given = {**body, "model": self.name} if isinstance(body, dict) else body
        try:
            reply = await unless_gone(request, self._post(f"{self._server.url}/v1/{path}", given))
        except aiohttp.ClientError as error:
            raise Refusal(503, f"the engine does not answer: {error}", "server_error") from None
        if reply is None:
            return Response(status_code=499)
        kind = reply.headers.get("Content-Type", "application/json").partition(";")[0]
        if kind == "text/event-stream":
            return Stream(_handed_back(reply), media_type=kind)
        async with reply:
            return Response(await reply.read(), reply.status, media_type=kind)

    async def _post(self, url: str, body: Any) -> aiohttp.ClientResponse:
        if self._session is None:
            every = aiohttp.TCPConnector(limit=0)  # the engine has its own queue
            self._session = aiohttp.ClientSession(
                connector=every, timeout=aiohttp.ClientTimeout(total=None, sock_connect=10))
        return await self._session.post(url, json=body)


async def _handed_back(reply: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for part in reply.content.iter_any():
            yield part
    finally:
        reply.close()  # a client that hung up ends the engine's answer too
