"""The launcher of a step on several nodes: it tells each node's group of ranks when a round begins, with whom, and when
to end. It computes nothing. On one machine it starts the groups itself; on a cluster they are pods of a JobSet.

They meet through `state/launcher.json` below the step's directory, which all nodes share, and a TCPStore."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.core.errors import StepError
from argosy.core.step.machine import shown, usable_gpus
from argosy.core.step.process import DIE_WITH_PARENT, THREADS, grace, timestamp
from argosy.core.step.ranks import NODE_TIMEOUT, node_timeout
from argosy.core.step.ranks.diagnosis import GroupEnd
from argosy.core.store.files import read_record, write_json
from argosy.core.store.lease import seconds_from
from argosy.core.store.step_files import LOG, STATE

ADDRESS, OVER, AGAIN = "launcher.json", "over", "again"
LOST = "lost.json"  # says why no more groups come from elsewhere
JOIN, NODE = "ARGOSY_JOIN", "ARGOSY_NODE"
"""The launcher's record, and the number of the node, of a process that runs a group."""
EXTERNAL = "ARGOSY_NODES_ELSEWHERE"
"""Set where the groups are not this process's to start: to the number of GPUs that they have together."""
NODE_WAIT, OWN_ADDRESS = "ARGOSY_NODE_WAIT", "ARGOSY_ADDRESS"
_POLL_S = 0.2
_AGAIN_S = 2.0  # before a group on this machine that has ended starts again
_FIRST_WAIT_S, _QUEUED_S = 600.0, 86_400.0  # for enough nodes to come; on a cluster, whose queue may hold them


def end_groups(out: Path, *, again: bool = False) -> None:
    """Tell groups elsewhere that no launcher follows, once the step in `out` has failed for good; or that they are to
    fail, for the cluster to make others `again`, on other nodes."""
    if (out / STATE).is_dir():
        write_json(out / STATE / ADDRESS, {AGAIN if again else OVER: True})


def own_address() -> str:
    """Return the address by which other nodes reach this one."""
    if EXTERNAL not in os.environ and NODE not in os.environ:
        return "127.0.0.1"
    return os.environ.get(OWN_ADDRESS) or socket.gethostbyname(socket.gethostname())


@dataclass
class _Group:
    """A group as the launcher sees it: its last count of signs of life, and when that changed."""

    beat: int = 0
    seen: float = float("-inf")
    incarnation: str = ""


class Launcher:
    """The groups of a step on `nodes` nodes, with `local` ranks each."""

    def __init__(self, step: str, out: Path, nodes: int, local: int) -> None:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        self._step, self._out, self._nodes, self._local = step, out, nodes, local
        self._address = own_address()
        with socket.socket() as listener:  # on this address alone
            listener.bind((self._address, 0))
            listener.listen()
            port = int(listener.getsockname()[1])
            self._store = TCPStore(self._address, port, is_master=True, wait_for_workers=False,
                                   master_listen_fd=listener.detach())
        self._wait = seconds_from(NODE_WAIT, 60)
        self._timeout = node_timeout()
        self._groups = [_Group() for _ in range(nodes)]
        self._round, self._closed = 0, threading.Event()
        self._ended: dict[str, int] = {}  # exit codes of groups on this machine, by incarnation
        self._processes: dict[int, subprocess.Popen[bytes]] = {}  # of groups on this machine
        self._waiting: set[int] = set()  # members of the round that have not ended
        self._taking: list[int] = []  # its members, in the order of their ranks
        self._bad: set[str] = set()  # incarnations that no round has any more
        self.hosts: list[str] = []  # of the ranks of the round
        record = out / STATE / ADDRESS
        record.parent.mkdir(exist_ok=True)
        write_json(record, {"host": self._address, "port": port})
        if EXTERNAL not in os.environ:
            for node in range(nodes):
                threading.Thread(target=self._keep_group, args=(node, record), daemon=True).start()

    def gather(self, least: int) -> int:
        """Wait for the groups, a short while where `least` are there, else for minutes; on a cluster, whose queue may
        hold them, for a day."""
        began, said = time.monotonic(), 10.0
        limit, where = ((_QUEUED_S, "see whether their pods were admitted") if EXTERNAL in os.environ
                        else (_FIRST_WAIT_S, f"{LOG} says why the groups do not start"))
        while (there := len(self._members())) < sum(group.incarnation not in self._bad for group in self._groups):
            waited = time.monotonic() - began
            if there >= least and waited > self._wait:
                break
            if there < least and (why := read_record(self._out / STATE / LOST).get("why")):
                raise StepError(f"{there} of {self._nodes} nodes are there, {least} are needed; no more come: {why}")
            if there < least and waited > max(self._wait, limit):
                raise StepError(f"{there} of {self._nodes} nodes are there after {waited:.0f} s, and {least} are "
                                f"needed (resources.STAGE.min_nodes): {where}")
            if waited > said:
                said = waited + _FIRST_WAIT_S
                print(f"{timestamp()} waiting for nodes: {there} of {self._nodes} are there", flush=True)
            time.sleep(_POLL_S)
        return there

    def leave_out(self, ranks: Iterable[int]) -> int:
        """Have no more rounds with the nodes of these ranks of the last one, until other processes come in their place;
        returns how many are left."""
        self._bad |= {self._groups[self._taking[rank // self._local]].incarnation for rank in ranks}
        return len(self._members())

    def run(self, task: dict[str, Any], nodes: int, grows: Callable[[int], bool]) -> tuple[GroupEnd, bool]:
        """Run a round on `nodes` of the groups that are there, until `grows` tells that more are of use."""
        members = self._members()[:nodes]
        if len(members) < nodes:
            return GroupEnd(), True  # one went since it was counted
        self._round, self._taking = self._round + 1, members
        ready = {node: json.loads(self._store.get(f"group/{node}")) for node in members}
        first, self.hosts = ready[members[0]], [ready[node]["host"] for node in members for _ in range(self._local)]
        self._store.set(f"round/{self._round}", json.dumps({
            "task": task, "members": {node: [place, ready[node]["incarnation"]] for place, node in enumerate(members)},
            "endpoint": f"{first['address']}:{first['port']}", "local": self._local}))
        self._store.set("round", str(self._round))
        return self._until_ended(members, grows)

    def _until_ended(self, members: list[int], of_use: Callable[[int], bool]) -> tuple[GroupEnd, bool]:
        """Wait for the members' ends. The first that fails, or is lost, ends the others."""
        end, lost, grows = GroupEnd(), dict[int, str](), False
        waiting = self._waiting = set(members)
        while waiting:
            time.sleep(_POLL_S)
            there = self._members()
            for node in sorted(waiting):
                key = f"end/{self._round}/{node}"
                if self._store.check([key]):
                    found = GroupEnd.read(json.loads(self._store.get(key)))
                    end.add(found)
                    waiting.discard(node)
                    if found.exits or found.frozen or found.late:
                        self._stop("stacks" if found.late else "kill")
                elif node not in there:
                    waiting.discard(node)
                    lost[members.index(node) * self._local] = self._lost(node)  # before it is killed
                    self._stop("kill")
                    if node in self._processes:  # it may be frozen, and write again later
                        self._processes[node].kill()
            if not grows and of_use(len(there)) and not lost and len(waiting) == len(members):
                grows = True
                self._stop("save")
        if lost and not end.late:
            end.frozen = lost
        return end, grows and end.only_saved()

    def _lost(self, node: int) -> str:
        code = self._ended.get(self._groups[node].incarnation)
        return f"node {node} was lost: its process " + (
            f"gave no sign of life for {self._timeout:g} s ({NODE_TIMEOUT}), or began anew (out of memory?)"
            if code is None else f"ended with exit code {code}")

    def _stop(self, how: str) -> None:
        key = f"stop/{self._round}"
        if not self._store.check([key]) or (how != "save" and self._store.get(key) == b"save"):
            self._store.set(key, how)

    def _members(self) -> list[int]:
        """List the groups that are ready or at work, as they give signs of life."""
        now = time.monotonic()
        for node, group in enumerate(self._groups):
            beat = self._store.add(f"beat/{node}", 0)
            if beat != group.beat:
                group.beat, group.seen = beat, now
                incarnation = json.loads(self._store.get(f"group/{node}"))["incarnation"]
                if group.incarnation not in ("", incarnation):
                    group.seen = float("-inf")  # the one before is lost, whoever came in its place
                group.incarnation = incarnation
        return [node for node, group in enumerate(self._groups)
                if now - group.seen < self._timeout and group.incarnation not in self._bad | self._ended.keys()]

    def _keep_group(self, node: int, record: Path) -> None:
        """Run a group on this machine, and start it again where it has ended, as a cluster would its pod."""
        gpus = usable_gpus()
        own = gpus[node * self._local : (node + 1) * self._local]
        cores = max(1, int(os.environ.get(THREADS, self._nodes)) // self._nodes)
        environment = {**os.environ, OWN_ADDRESS: self._address, JOIN: str(record), NODE: str(node),
                       DIE_WITH_PARENT: str(os.getpid()), THREADS: str(cores),
                       **(shown(own) if gpus else {})}
        command = [sys.executable, "-m", f"steps.{self._step}"]
        with open(self._out / LOG, "a", encoding="utf-8") as log:
            while not self._closed.is_set():
                process = self._processes[node] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
                code = process.wait()
                if not self._closed.is_set() and self._store.check([f"group/{node}"]):
                    self._ended[json.loads(self._store.get(f"group/{node}"))["incarnation"]] = code
                self._closed.wait(_AGAIN_S)

    def close(self) -> None:
        """Tell the groups that all is over, and wait until their ranks have saved, as far as the grace goes."""
        self._closed.set()
        self._stop("save")
        deadline = time.monotonic() + grace(0.8)
        while self._waiting and time.monotonic() < deadline:
            self._waiting -= {node for node in self._waiting if self._store.check([f"end/{self._round}/{node}"])}
            time.sleep(_POLL_S)
        self._stop("kill")
        if EXTERNAL not in os.environ:  # where others start them, another launcher may follow
            self._store.set(OVER, "1")
            while time.monotonic() < deadline and self._store.add("left", 0) < len(self._members()):
                time.sleep(_POLL_S)
        with suppress(OSError):
            (self._out / STATE / ADDRESS).unlink()
