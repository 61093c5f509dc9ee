"""A step's directory in the store and in the pod that works on it: the pod's lease on it, its files, and the thread
that pushes them while it grows.

Argo's mutexes keep batches of the same name apart. Leases are for what they cannot see: parts that two workflows deal
to batches of other names, and a pod on a node that the cluster has given up but that still runs."""

import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from argosy.core.errors import ArgosyError, InputError
from argosy.core.store.files import parse_object
from argosy.core.store.lease import LEASE
from argosy.core.store.step_files import OUTPUTS, parts_to_retry
from workflows.argo.objectstore.files import Entry, Remote, RemoteError
from workflows.argo.objectstore.mirror import Stamp, each, is_record, scan, stage
from workflows.local.view import NodeResult, RunObserver, RunResult
from workflows.plan import Plan


class Leases:
    """The right to write some directories, as a context; waits until other holders have let go.

    A holder that has not written its lease for `stale_s` is dead: seen by watching, so clocks do not matter.

    Args:
        owner: who it is for people, and the same for all attempts at a batch.
        is_over: the attempt before this one is known to have ended, so its leases need no watching."""

    def __init__(self, remote: Remote, names: Sequence[str], owner: str, beat_s: float, *,
                 is_over: bool = False) -> None:
        self._remote, self._paths = remote, [f"{name}/{LEASE}" for name in sorted(names)]
        self._owner, self._is_over = owner, is_over
        self._beat_s, self._stale_s = beat_s, 5 * beat_s
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
            time.sleep(min(self._beat_s / 2, 5.0))

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


FILES = ".files.json"  # in the store alone: the files of the last push that was whole


class RemoteNode:
    """Fetches a step's directory, and sends it again and again as it grows.

    Args:
        name: of the directory.
        check: raises where another pod has taken the directory over."""

    def __init__(self, remote: Remote, root: Path, name: str, check: Callable[[], None] = lambda: None) -> None:
        self.name, self._remote, self._check = name, remote, check
        self._local, self._area = root / name, root / ".staging" / name
        self._lock = threading.Lock()
        self._known: dict[str, Stamp] = {}
        self._there: set[str] = set()
        self._listed: set[str] = set()
        self._done = False  # before this pod: its files are not fetched, and stay as they are

    def pull(self) -> None:
        """Fetch the files of earlier attempts; of a finished step, its records alone."""
        entries, listed = whole(self._remote, self.name)
        self._there, self._listed = set(entries), listed
        record = parse_object((OUTPUTS in entries and self._remote.read(f"{self.name}/{OUTPUTS}")) or b"")
        # With a failed part to retry it goes on from its state.
        self._done = {"outputs", "made_from"} <= record.keys() and not parts_to_retry(record)
        wanted = {n: e for n, e in entries.items() if is_record(n) or (n in listed and not self._done)}
        each(lambda n: self._remote.download(f"{self.name}/{n}", wanted[n], self._local / n), wanted,
             lambda n: wanted[n].size)  # fmt: skip
        self._known = {n: s for n, s in scan(self._local).items() if n in wanted}

    def push(self) -> None:
        """Send changed files; nothing while the directory is in turmoil."""
        with self._lock:
            try:
                found = stage(self._local, self._area, self._known)
                if found is not None:
                    self._send(found)
            finally:
                shutil.rmtree(self._area, ignore_errors=True)

    def _send(self, found: dict[str, Stamp]) -> None:
        changed = [name for name, stamp in found.items() if self._known.get(name) != stamp]
        gone = set() if self._done else self._there - found.keys()
        if not changed and not gone:
            return
        self._check()
        if OUTPUTS in gone:  # it is being made anew
            self._delete([OUTPUTS])
        self._upload((n for n in changed if not is_record(n) and n not in self._there), found)
        names = {n for n in found if not is_record(n)}
        if names != self._listed and not self._done:
            self._remote.write(f"{self.name}/{FILES}", json.dumps({"files": sorted(names)}).encode())
            self._listed = names
        grown = [n for n in changed if n in self._there and n in self._known and self._known[n].inode == found[n].inode]
        self._upload((n for n in grown if n != OUTPUTS), found)  # what a record speaks of comes before the record
        self._upload((n for n in changed if n != OUTPUTS), found)
        self._check()
        self._upload((n for n in changed if n == OUTPUTS), found)
        self._delete(gone - {OUTPUTS})

    def _upload(self, names: Iterable[str], found: dict[str, Stamp]) -> None:
        todo = [name for name in names if self._known.get(name) != found[name]]

        def one(name: str) -> None:
            self._remote.upload(self._area / name, f"{self.name}/{name}")
            self._known[name] = found[name]
            self._there.add(name)

        each(one, todo, lambda name: found[name].size)

    def _delete(self, names: Iterable[str]) -> None:
        gone = list(names)
        if gone:
            self._remote.delete(f"{self.name}/{name}" for name in gone)
        self._there.difference_update(gone)
        for name in gone:
            self._known.pop(name, None)


def whole(remote: Remote, name: str, tries: int = 2) -> tuple[dict[str, Entry], set[str]]:
    """List all files in a step's directory by path below it, and those of them that are in its list.

    A directory that was copied there by other means has no list: all its files count. Of an unfinished one that
    lacks a file of its list nothing counts, so that the step starts anew, unless another of `tries` finds it: its pod
    may have sent files and list meanwhile. Raises InputError: a finished one lacks a file."""
    start = len(name) + 1
    entries = {path[start:]: entry for path, entry in remote.list(name).items()}
    entries.pop(LEASE, None)
    files = remote.read(f"{name}/{FILES}") if entries.pop(FILES, None) else None
    if files is None:
        return entries, set(entries)
    listed = set(json.loads(files)["files"])
    if missing := sorted(listed - entries.keys()):
        if OUTPUTS in entries:
            raise InputError(
                f"{remote.uri}/{name} lacks {missing[0]}, which the finished step made ({len(missing)} files in all): "
                f"bring it back, or delete {OUTPUTS} there and the step runs again")
        return whole(remote, name, tries - 1) if tries > 1 else (entries, set())
    return entries, listed


class Pusher(RunObserver):
    """A thread that pushes every `every_s` seconds, and when a node has ended. Failing does not stop the steps.

    Args:
        also: pushes what belongs to no node."""

    def __init__(self, nodes: Sequence[RemoteNode], every_s: float, also: Callable[[], object]) -> None:
        self._nodes, self._every_s, self._also = nodes, every_s, also
        self._wake, self._ended = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="pusher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def on_plan(self, plan: Plan) -> None:
        """Push at once: the count of attempts is to outlive a pod that is killed soon."""
        self._wake.set()

    def on_finish(self, result: NodeResult) -> None:
        """Push soon, so that others see the result."""
        self._wake.set()

    def on_end(self, result: RunResult) -> None:
        """Push everything before anything else is waited for: after SIGTERM there is little time."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # it is ending; what is on its way arrives, or SIGKILL comes
        self._stop()
        self._push_patiently()

    def finish(self) -> None:
        """Push for the last time, where failing counts. Raises RemoteError, InputError: something could not be sent."""
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
                print(f"store: {error}; it is retried later", file=sys.stderr, flush=True)
