"""The keeper of a server's processes, which end with the step, however that ends.

`python keeper.py COMMAND...` runs the command as a group of processes. The step holds the other end of the keeper's
standard input: that closes when the step lets go or dies, even by SIGKILL, and the keeper then ends the group. With the
standard library alone, since it is run by its path."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

GRACE_S = 10.0  # between SIGTERM and SIGKILL


def main(command: list[str]) -> int:
    """Run the command to its end, or to the step's; returns its exit code."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end of the step is the one sign to end
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_default_signals)
    threading.Thread(target=_end_with_step, args=(server.pid,), daemon=True).start()
    code = server.wait()
    _signal(server.pid, signal.SIGKILL)  # those that it left behind
    return code if code >= 0 else 128 - code


def _default_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # what is ignored would be inherited


def _end_with_step(group: int) -> None:
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
