"""Sends what a batch makes while it runs, and all of it at the end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Sequence

from argosy.errors import ArgosyError
from workflows.argo.remote.node import RemoteNode
from workflows.local.observer import NodeResult, RunObserver, RunResult
from workflows.plan import Plan


class Pusher(RunObserver):
    """A thread that pushes every `every_s` seconds, and when a node has ended. Failing does not stop the steps.

    Args:
        also: pushes what belongs to no node.
    """

    def __init__(self, nodes: Sequence[RemoteNode], every_s: float, also: Callable[[], object]) -> None:
        self._nodes, self._every_s, self._also = nodes, every_s, also
        self._wake, self._ended = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="pusher", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def on_plan(self, plan: Plan) -> None:
        """A push at once: the count of attempts is to outlive a pod that is killed soon."""
        self._wake.set()

    def on_finish(self, result: NodeResult) -> None:
        """What is done is to be seen soon."""
        self._wake.set()

    def on_end(self, result: RunResult) -> None:
        """Push everything before anything else is waited for: after SIGTERM there is little time."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # it is ending; what is on its way arrives, or SIGKILL comes
        self._stop()
        self._push_patiently()

    def finish(self) -> None:
        """The last push, whose failure counts.

        Raises:
            RemoteError, InputError: something could not be sent.
        """
        self._stop()
        for node in self._nodes:
            node.push()
        self._also()

    def _stop(self) -> None:
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended:
            self._wake.wait(self._every_s)
            self._wake.clear()
            if not self._ended:
                self._push_patiently()

    def _push_patiently(self) -> None:
        for push in (*(node.push for node in self._nodes), self._also):
            try:
                push()
            except (ArgosyError, OSError) as error:
                print(f"store: {error}; tried again later", file=sys.stderr, flush=True)
