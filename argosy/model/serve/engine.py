"""The engine of one checkpoint: requests from many tasks, answered by one thread in one batch."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from argosy.model.infer.forward import free_memory, is_out_of_memory
from argosy.model.serve.batch import Batch, Row, Sampling, Token, joins

_LOG = logging.getLogger(__name__)
_CHUNK = 4096  # prompt tokens, padding included, that join the batch between two tokens of the others


class Busy(Exception):
    """The queue is full."""


class Failed(Exception):
    """The engine could not compute an answer; str() says why."""


@dataclass(eq=False)
class _Asked:
    """A row, and the task that waits for it."""

    row: Row
    loop: asyncio.AbstractEventLoop
    news: "asyncio.Queue[int | Failed]"  # numbers of tokens, or why there are no more

    def tell(self, news: "int | Failed") -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            self.loop.call_soon_threadsafe(self.news.put_nowait, news)


class Engine:
    """Answers prompts with one model, many at a time.

    Args:
        model: a causal model of transformers.
        rows: answers at a time, 1 for a model whose rows may not be in one batch.
        queue: answers that may wait beside them."""

    def __init__(self, model: Any, rows: int = 32, queue: int = 256) -> None:
        self.rows = rows if joins(model) else 1
        self.queue = queue
        self._batch = Batch(model)
        self._waiting: deque[_Asked] = deque()
        self._running: dict[Row, _Asked] = {}
        self._wake, self._ended = threading.Condition(), False
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of answers that have not begun."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Number of answers in the batch."""
        return len(self._running)

    @property
    def most(self) -> int:
        """Number of answers that it takes at most, those that wait included."""
        return self.rows + self.queue

    @property
    def alive(self) -> bool:
        """Whether it still answers."""
        return self._thread.is_alive()

    async def answer(self, prompt: Sequence[int], sampling: Sampling) -> AsyncIterator[Token]:
        """Yield the tokens of an answer as they are made; whoever stops listening takes it out of the batch.

        Raises:
            Busy: as many requests wait as may.
            Failed: the model could not compute it."""
        asked = _Asked(Row(prompt, sampling), asyncio.get_running_loop(), asyncio.Queue())
        with self._wake:
            if self.running + self.waiting >= self.most:
                raise Busy
            if self._ended:
                raise Failed("the server is ending")
            self._waiting.append(asked)
            self._wake.notify()
        seen = 0
        try:
            while seen == 0 or not asked.row.ended or seen < len(asked.row.tokens):
                news = await asked.news.get()
                if isinstance(news, Failed):
                    raise news
                while seen < news:
                    yield asked.row.tokens[seen]
                    seen += 1
        finally:
            with self._wake, suppress(ValueError):  # it has begun
                asked.row.left = True
                self._waiting.remove(asked)

    def end(self) -> None:
        """Stop answering."""
        with self._wake:
            self._ended = True
            self._wake.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self._ended and not self._waiting and not self._running:
                    self._wake.wait()
                if self._ended:
                    for asked in [*self._running.values(), *self._waiting]:
                        asked.tell(Failed("the server has ended"))
                    return
                newcomers = self._newcomers()
            self._step(newcomers)

    def _newcomers(self) -> list[_Asked]:
        """Take what fits from the queue: free rows, and prompts that do not keep the others waiting for long."""
        taken: list[_Asked] = []
        longest = 0
        while self._waiting and len(self._running) + len(taken) < self.rows:
            longest = max(longest, len(self._waiting[0].row.prompt))
            if taken and longest * (len(taken) + 1) > _CHUNK:
                break
            taken.append(self._waiting.popleft())
        self._running |= {asked.row: asked for asked in taken}
        return taken

    def _step(self, newcomers: list[_Asked]) -> None:
        try:
            grown = [self._running[row] for row in self._batch.step([asked.row for asked in newcomers])]
        except Exception as error:
            self._fail(error)
            return
        self._running = {row: asked for row, asked in self._running.items() if not row.ended and not row.left}
        for asked in grown:  # last, as whoever hears of an end may ask again at once
            asked.tell(len(asked.row.tokens))

    def _fail(self, error: Exception) -> None:
        """End what is in the batch; the next requests begin anew."""
        _LOG.exception("%d answers failed", len(self._running))
        memory = is_out_of_memory(error)
        why = "memory does not suffice for this many answers at a time" if memory else f"the model failed: {error}"
        for asked in self._running.values():
            asked.tell(Failed(why))
        self._running = {}
        self._batch.forget()
        if memory:
            self.rows = max(1, self.rows // 2)
            free_memory()
