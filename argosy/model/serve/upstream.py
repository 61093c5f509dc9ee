"""A checkpoint that vLLM or SGLang answers with: their server's process, and requests handed on to it as they are."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from starlette.requests import Request
from starlette.responses import Response

from argosy.core.errors import InputError, StepError
from argosy.model.serve.form import Stream, unless_gone
from argosy.model.serve.protocol import Refusal

_START_S = 1800.0  # loading and compiling a large model takes minutes
_COMMANDS = {
    "vllm": ("vllm", "serve", "{model}", "--served-model-name", "{name}"),
    "sglang": ("python", "-m", "sglang.launch_server", "--model-path", "{model}", "--served-model-name", "{name}"),
}


class UpstreamModel:
    """A server of another engine, started here.

    Args:
        name: what requests call the model.
        command: the engine's program, before its own arguments; empty: `vllm`, or `python -m sglang.launch_server`.
        arguments: added to its command line, such as --tensor-parallel-size 2.
        log: file of its output.

    Raises InputError: its program is not there."""

    def __init__(self, name: str, model: Path, engine: str, port: int, log: Path, command: Sequence[str] = (),
                 arguments: Sequence[str] = ()) -> None:
        parts = [*_COMMANDS[engine]]
        if command:
            parts[: 1 if engine == "vllm" else 3] = command
        if not shutil.which(parts[0]):
            raise InputError(f"--engine {engine} starts {parts[0]!r}, which is no program here: install {engine} in an "
                             "environment of its own (docs/install.md) and name its program with --engine-command")
        self.name, self.log, self.url = name, log, f"http://127.0.0.1:{port}"
        self._command = [*(part.format(model=model, name=name) for part in parts), "--host", "127.0.0.1", "--port",
                         str(port), *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self._session: aiohttp.ClientSession | None = None

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def gauges(self) -> list[tuple[str, float, dict[str, str]]]:
        """Nothing: its own server has its numbers."""
        return []

    async def start(self) -> None:
        """Start the process, and wait until it answers. Raises StepError: it does not; with its last lines."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0),  # the engine has its own queue
                                              timeout=aiohttp.ClientTimeout(total=None, sock_connect=10))
        try:
            await asyncio.wait_for(self._ready(), _START_S)
        except TimeoutError:
            await self.end()
            raise StepError(f"{self._command[0]} did not answer within {_START_S:g} s; {self._said()}") from None

    async def _ready(self) -> None:
        assert self._session
        while True:
            if not self.alive:
                raise StepError(f"{self._command[0]} did not start; {self._said()}")
            try:
                async with self._session.get(f"{self.url}/health") as reply:
                    if reply.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.2)

    async def end(self) -> None:
        """End the process, with a kill where it takes more than 30 s."""
        if self._session:
            await self._session.close()
        if self.alive and self._process:
            self._process.terminate()
            try:
                await asyncio.to_thread(self._process.wait, 30)
            except subprocess.TimeoutExpired:
                self._process.kill()

    async def handle(self, path: str, body: Any, request: Request) -> Response:
        """Hand a request on; a stream is handed back as it comes. Raises Refusal: the engine does not answer."""
        assert self._session
        given = {**body, "model": self.name} if isinstance(body, dict) else body
        try:
            reply = await unless_gone(request, self._post(f"{self.url}/v1/{path}", given))
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
        assert self._session
        return await self._session.post(url, json=body)

    def _said(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        return f"the end of {self.log}:\n" + "\n".join(lines)


async def _handed_back(reply: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for part in reply.content.iter_any():
            yield part
    finally:
        reply.close()  # a client that hung up ends the engine's answer too
