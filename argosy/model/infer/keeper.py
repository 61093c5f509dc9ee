"""A server's processes, which end with the process that started them, however that ends.

`python keeper.py COMMAND...` runs the command as a group of processes. Its owner holds the other end of the keeper's
standard input: that closes when the owner lets go or dies, even by SIGKILL, and the keeper then ends the group. With
the standard library alone, since it is run by its path."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

GRACE_S = 10.0  # between SIGTERM and SIGKILL
_TAIL = 15  # lines of the log in an error


class KeptServer:
    """A server of HTTP that this process has started, with all of its processes; `log`: file of its output."""

    def __init__(self, command: Sequence[str], url: str, log: Path,
                 environment: Mapping[str, str] = os.environ) -> None:
        self.url, self._program, self._log = url, command[0], log
        with log.open("ab") as output:
            output.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(command)}\n".encode())
            output.flush()
            self._begin = output.tell()
            self._keeper = subprocess.Popen([sys.executable, __file__, *command], stdin=subprocess.PIPE, stdout=output,
                                            stderr=output, env=environment, start_new_session=True)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._keeper.poll() is None

    def wait(self, seconds: float, limit: str = "") -> None:
        """Wait until its /health answers. Raises StepError: it ended, or does not answer in time (`limit`: the field
        that says so); with its last lines."""
        from argosy.core.errors import StepError

        deadline = time.monotonic() + seconds
        while not self._healthy():
            if time.monotonic() > deadline:
                raise StepError(f"{self._program} did not answer within {seconds:g} s of its start{limit}; "
                                f"{self.said()}")
            if not self.alive:
                raise StepError(f"{self._program} did not start; {self.said()}")
            time.sleep(0.1)

    def _healthy(self) -> bool:
        with suppress(OSError, HTTPException), urllib.request.urlopen(f"{self.url}/health", timeout=10):
            return True
        return False

    def said(self) -> str:
        """Say how it is, and the last lines of its log."""
        code = self._keeper.poll()
        state = "it is running" if code is None else f"it ended with exit code {code}"
        with suppress(OSError):
            text = self._log.read_bytes()[self._begin :].decode("utf-8", "replace")
            if lines := text.strip().splitlines()[-_TAIL:]:
                return "\n  ".join([f"{state}; {self._log} ends with:", *lines])
        return f"{state}, and {self._log} is empty"

    def close(self) -> None:
        """End it, with all of its processes."""
        if self._keeper.stdin:
            self._keeper.stdin.close()
        try:
            self._keeper.wait(GRACE_S + 5)
        except subprocess.TimeoutExpired:
            self._keeper.kill()


def main(command: list[str]) -> int:
    """Run the command to its end, or to the owner's; returns its exit code."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end of the owner is the one sign to end
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_default_signals)
    threading.Thread(target=_end_with_owner, args=(server.pid,), daemon=True).start()
    code = server.wait()
    _signal(server.pid, signal.SIGKILL)  # those that it left behind
    return code if code >= 0 else 128 - code


def _default_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # what is ignored would be inherited


def _end_with_owner(group: int) -> None:
    while os.read(0, 4096):
        pass
    _signal(group, signal.SIGTERM)
    time.sleep(GRACE_S)
    _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # at once: the thread may be reading
