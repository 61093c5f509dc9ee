"""Checkpoints opened for serving, and the server's process: it drains on SIGTERM before it ends."""

import signal
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from argosy.core.errors import InputError
from argosy.core.step.machine import free_port
from argosy.model.infer.model import LanguageModel
from argosy.model.serve.app import Model, Server
from argosy.model.serve.local import LocalModel
from argosy.model.serve.metrics import Metrics
from argosy.model.serve.upstream import UpstreamModel
from argosy.model.serve.votes import Votes
from argosy.model.weights.checkpoint import Checkpoint


@dataclass(frozen=True)
class Serving:
    """Settings of a server."""

    host: str = "127.0.0.1"
    port: int = 8000
    engine: str = "argosy"
    """`argosy` (transformers, batched here), `vllm` or `sglang`"""
    engine_command: Sequence[str] = ()
    """program of vllm or sglang, where it is not on the path"""
    engine_arguments: Sequence[str] = ()
    """arguments added to its command line"""
    limit: int | None = None
    """most tokens of an answer; None: what the context has room for"""
    rows: int = 32
    """answers at a time of one model"""
    queue: int = 256
    """answers of one model that may wait; the next ones get 429"""
    drain: float = 60.0
    """seconds that requests in flight have after SIGTERM"""
    linger: float = 0.0
    """seconds that new requests are still answered after SIGTERM, while whoever balances load hears of it"""
    keys: Mapping[str, str] | None = None
    """keys by the name of who has one; None: no key is asked for"""
    votes: Path | None = None
    """folder of the chat page's votes"""


def open_models(checkpoints: Mapping[str, tuple[Checkpoint, str]], serving: Serving, metrics: Metrics,
                logs: Path) -> list[Model]:
    """Open each checkpoint by its name, in a precision. Raises InputError: one cannot be loaded or served;
    StepError: its engine does not start."""
    if serving.engine == "argosy":
        return [LocalModel(name, LanguageModel.load(checkpoint, dtype=dtype), metrics, limit=serving.limit,
                           rows=serving.rows, queue=serving.queue) for name, (checkpoint, dtype) in checkpoints.items()]
    logs.mkdir(parents=True, exist_ok=True)
    return [UpstreamModel(name, checkpoint.path, serving.engine, free_port(), logs / f"{name.replace('/', '-')}.log",
                          serving.engine_command, serving.engine_arguments)
            for name, (checkpoint, _) in checkpoints.items()]  # fmt: skip


def serve(models: Sequence[Model], serving: Serving, metrics: Metrics, about: Mapping[str, Mapping[str, Any]],
          listening: socket.socket) -> None:
    """Answer requests until `linger` seconds after SIGTERM, or Ctrl-C; those in flight then have `drain` seconds.

    `listening`: from `listen`. Raises InputError: the server did not start."""
    server = Server(models, metrics, serving.keys, Votes(serving.votes, about) if serving.votes else None)
    config = uvicorn.Config(server.app(), log_level="warning", timeout_graceful_shutdown=round(serving.drain),
                            lifespan="on", server_header=False)
    running = _Process(config, server, serving.linger)
    running.run(sockets=[listening])
    if not running.started:
        raise InputError("the server did not start; its messages say why")


def listen(serving: Serving) -> socket.socket:
    """Take the address, before models are loaded. Raises InputError: it is taken, or open to all without a key."""
    if not serving.keys and serving.host not in ("127.0.0.1", "localhost", "::1"):
        raise InputError(f"--host {serving.host} is open to other machines: give --keys FILE (NAME KEY, a line each), "
                         "or serve on 127.0.0.1")
    listening = socket.socket(socket.AF_INET6 if ":" in serving.host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((serving.host, serving.port))
    except OSError as error:
        listening.close()
        where = f"--host {serving.host} --port {serving.port}"
        raise InputError(f"{where}: {error.strerror}; choose another --port") from None
    return listening


class _Process(uvicorn.Server):
    """A server that says that it is draining as soon as it is to end."""

    def __init__(self, config: uvicorn.Config, server: Server, linger: float) -> None:
        super().__init__(config)
        self._server, self._linger, self._until = server, linger, float("inf")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after the requests in flight, at a second Ctrl-C at once; the process then exits by itself."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = self._server.draining or sig == signal.SIGINT or not self._linger
        self._server.draining, self._until = True, time.monotonic() + self._linger

    async def on_tick(self, counter: int) -> bool:
        """End once it has lingered."""
        self.should_exit |= time.monotonic() > self._until
        return await super().on_tick(counter)
