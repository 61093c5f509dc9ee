"""A node's group of ranks, as a process that obeys a launcher: `python -m steps.NAME` with ARGOSY_JOIN."""

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from argosy.core.errors import StepError
from argosy.core.nodes.bad import node_name
from argosy.core.step.machine import free_port
from argosy.core.step.process import timestamp
from argosy.core.step.ranks.group import Place, Stop, run_group
from argosy.core.step.ranks.launcher import AGAIN, NODE, OVER, own_address
from argosy.core.store.files import read_record
from argosy.core.store.lease import seconds_from
from argosy.core.store.step_files import read_done

JOIN_WAIT = "ARGOSY_JOIN_SECONDS"
JOINED = "ARGOSY_JOINED"
"""Names a file of a group in a pod, which removes it when it has no launcher; one that lacks memory leaves it."""
_POLL_S, _BEAT_S = 0.2, 1.0


def join(step: str, record: Path) -> int:
    """Run the ranks of this node whenever the launcher that `record` names says so; returns 0 once it says that all is
    over. Raises StepError: there is no launcher for ARGOSY_JOIN_SECONDS (600), or the last asked for other nodes."""
    patience, last, served = seconds_from(JOIN_WAIT, 600), time.monotonic(), False
    while time.monotonic() - last < patience:
        address = read_record(record)
        if address.get(OVER) or read_done(record.parent.parent):
            return 0
        if served and address.get(AGAIN):
            break
        if "host" in address:
            try:
                member = _Member(step, address)
            except RuntimeError:  # nobody listens there any more
                time.sleep(_BEAT_S)
                continue
            if member.serve():
                return 0
            last, served = time.monotonic(), True
        time.sleep(_BEAT_S)
    if JOINED in os.environ:
        Path(os.environ[JOINED]).unlink(missing_ok=True)
    if served and address.get(AGAIN):
        raise StepError("a node of this step is bad: its groups are to be made again on others")
    raise StepError(f"{record} names no launcher that answers for {patience:g} s ({JOIN_WAIT})")


class _Member:
    """A group of ranks that has joined a launcher."""

    def __init__(self, step: str, address: dict[str, Any]) -> None:
        from datetime import timedelta

        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        self._step, self._node = step, int(os.environ[NODE])
        self._store = TCPStore(address["host"], int(address["port"]), is_master=False, wait_for_workers=False,
                               timeout=timedelta(seconds=30))
        self._address, self._incarnation = own_address(), uuid4().hex
        self._gone = threading.Event()
        self._register()
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    def _register(self) -> None:
        """Say that this group is ready, at a port on which ranks of a round may meet."""
        self._store.set(f"group/{self._node}", json.dumps({
            "incarnation": self._incarnation, "address": self._address, "port": free_port(), "host": node_name()}))

    def _beat(self) -> None:
        try:
            while not self._gone.wait(_BEAT_S):
                self._store.add(f"beat/{self._node}", 1)
        except RuntimeError:
            self._gone.set()

    def serve(self) -> bool:
        """Take part in rounds; tells whether all is over, and not the launcher gone."""
        number, finished = 0, False
        try:
            self._store.add(f"beat/{self._node}", 1)
            while not (finished := bool(self._store.check([OVER]))):
                last = int(self._store.get("round")) if self._store.check(["round"]) else 0
                if last > number:
                    number = last
                    self._take_part(number, json.loads(self._store.get(f"round/{number}")))
                time.sleep(_POLL_S)
            self._store.add("left", 1)
        except RuntimeError:  # the launcher is gone
            pass
        self._gone.set()
        return finished

    def _take_part(self, number: int, round_: dict[str, Any]) -> None:
        place, incarnation = round_["members"].get(str(self._node), (0, ""))
        if incarnation != self._incarnation:
            return
        count, local = len(round_["members"]), round_["local"]
        print(f"{timestamp()} round {number} on {count} nodes: ranks {place * local} to {(place + 1) * local - 1} on "
              f"node {self._node}", flush=True)
        where = Place(place, count, local, round_["endpoint"], self._address)
        end = run_group(self._step, where, round_["task"], lambda: self._asked(number))
        self._register()
        self._store.set(f"end/{number}/{self._node}", json.dumps(end.record()))
        if end.starved and JOINED in os.environ:
            sys.exit(128 + signal.SIGKILL)  # as if it had been killed itself

    def _asked(self, number: int) -> Stop:
        """Return how the round is to end early, if it is; a launcher that is gone ends it too."""
        key = f"stop/{number}"
        with suppress(RuntimeError):
            if not self._gone.is_set():
                return self._store.get(key).decode() if self._store.check([key]) else ""  # type: ignore[return-value]
        return "kill"
