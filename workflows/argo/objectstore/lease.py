"""Leases on steps' directories in an object store: an object that one pod creates and goes on writing.

Argo's mutexes keep batches of the same name apart. This is for what they cannot see: parts that two workflows deal to
batches of other names, and a pod on a node that the cluster has given up but that still runs."""

import json
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence

from argosy.core.errors import ArgosyError
from argosy.core.store.files import parse_object
from argosy.core.store.lease import LEASE
from workflows.argo.objectstore.files import Remote, RemoteError
from workflows.argo.objectstore.mirror import each


class Leases:
    """The right to write some directories, as a context; waits until other holders have let go.

    A holder that has not written its lease for `stale_s` is dead: seen by watching, so clocks do not matter.

    Args:
        owner: who it is for people, and the same for all attempts at a batch.
        is_over: the attempt before this one is known to have ended, so its leases need no watching."""

    def __init__(
        self, remote: Remote, names: Sequence[str], owner: str, beat_s: float, *,
        is_over: bool = False, pause: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._remote, self._paths = remote, [f"{name}/{LEASE}" for name in sorted(names)]
        self._owner, self._is_over = owner, is_over
        self._beat_s, self._stale_s, self._pause = beat_s, 5 * beat_s, pause
        self._token, self._beats = uuid.uuid4().hex, 0
        self._taken: list[str] = []
        self._renewed = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="leases", daemon=True)
        self.lost = ""

    def __enter__(self) -> "Leases":
        self._thread.start()
        try:
            for path in self._paths:  # in this order everywhere, so that two pods never wait for each other
                self._take(path)
                self._taken.append(path)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        own = [path for path in self._taken if parse_object(self._remote.read(path) or b"").get("token") == self._token]
        if own:
            self._remote.delete(own)

    def check(self) -> None:
        """Raise RemoteError where another pod took a directory over.

        A pod that was suspended looks first: it may go on here before its next beat."""
        if time.monotonic() - self._renewed > 2 * self._beat_s:
            self._renew_all()
        if self.lost:
            raise RemoteError(self.lost)

    def _take(self, path: str) -> None:
        last, since, told = None, time.monotonic(), False
        while not self._remote.create(path, self._record()):
            found = self._remote.read(path)
            if found is None:
                continue
            holder = parse_object(found)
            if found != last:
                last, since = found, time.monotonic()
            ours = self._is_over and holder.get("owner") == self._owner
            if ours or time.monotonic() - since > self._stale_s:
                self._remote.delete([path])
                continue
            if not told:
                print(f"{self._remote.uri}/{path} is held by {holder.get('owner')} on {holder.get('host')}: waiting",
                      flush=True)  # fmt: skip
                told = True
            self._pause(min(self._beat_s / 2, 5.0))

    def _beat(self) -> None:
        while not self._ended.wait(self._beat_s):
            self._beats += 1
            try:
                self._renew_all()
            except ArgosyError as error:
                if self.lost:
                    break
                print(f"lease: {error}", flush=True)  # a store that stalls; the next beat may come in time
        if self.lost:
            print(self.lost, flush=True)
            os.kill(os.getpid(), signal.SIGTERM)  # the steps stop, and nothing more is pushed

    def _renew_all(self) -> None:
        began = time.monotonic()
        each(self._renew, tuple(self._taken))
        self._renewed = began

    def _renew(self, path: str) -> None:
        holder = parse_object(self._remote.read(path) or b"")
        if holder.get("token") != self._token:
            other = f"{holder['owner']} on {holder.get('host')}" if "owner" in holder else "a pod that has ended"
            self.lost = f"{self._remote.uri}/{path} was taken over by {other}"
            raise RemoteError(self.lost)
        self._remote.write(path, self._record())

    def _record(self) -> bytes:
        record = {"owner": self._owner, "host": socket.gethostname(), "token": self._token, "beats": self._beats}
        return json.dumps(record).encode()
