"""Chat templates, rendered in a process of limited time and memory that lives as long as ours (template_child.py).

A template is a program that comes with a model: it may loop for ever or fill the memory, which no thread can end."""

import atexit
import json
import marshal
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from argosy.core.errors import InputError, StepError

SECONDS = 30  # of CPU time for a conversation, which takes milliseconds
MEMORY_MB = 1024
_WALL_SECONDS = 600  # of any time, which pass sooner on a busy machine
_CHILD = Path(__file__).with_name("template_child.py")
_TEXT_MB, _TIMES = 4, 16  # MB, and multiple of its request, that a reply has at most: our process tokenizes it


class TemplateRefusal(InputError):
    """The template refuses the messages, or fails with them: `why`; `where`: its model's directory, if known.

    `reason` is the same without the directory, for counts of records."""

    def __init__(self, why: str, where: str = "") -> None:
        super().__init__(f"the chat template{where and f' of {where}'} refuses it: {why}")
        self.why, self.reason = why, f"the chat template refuses it: {why}"


class Rendered(NamedTuple):
    """A text, and begin and end of each {% generation %} block in it, in characters."""

    text: str
    spans: list[tuple[int, int]]


def render(template: str, values: Mapping[str, Any], marks: bool = False) -> Rendered:
    """Render a template of `values` (of JSON's types) as transformers does; `marks`: with the spans.

    Raises TemplateRefusal: it refuses, or fails; InputError: it takes more than SECONDS or MEMORY_MB, or writes too
    much; StepError: its process cannot be started, or was killed."""
    failed, text, spans = _WORKER.ask(marshal.dumps((template, dict(values), marks)))
    if failed:
        raise TemplateRefusal(text)
    return Rendered(text, [(begin, end) for begin, end in spans])


def _too_much(what: str) -> InputError:
    return InputError(f"the chat template of the checkpoint's tokenizer {what} for one conversation: "
                      "correct the chat_template in the model's directory")


class _Child(NamedTuple):
    """The process, and the pipes to it and from it."""

    process: "subprocess.Popen[bytes]"
    requests: Connection
    replies: Connection

    def ask(self, request: bytes) -> bytes:
        """Return the reply to a request. Raises EOFError: the process has ended; InputError: that is too long."""
        with suppress(BrokenPipeError):  # it may have replied that it cannot read so much
            self.requests.send_bytes(request)
        if not self.replies.poll(_WALL_SECONDS):
            raise StepError(f"the chat template has not ended after {_WALL_SECONDS} s, though it had little CPU time: "
                            "run again on a machine that is less busy")
        try:
            return self.replies.recv_bytes(_TEXT_MB * 10**6 + _TIMES * len(request))
        except OSError:
            if not self.replies.closed:
                raise EOFError from None
            raise _too_much(f"writes more than {_TEXT_MB} MB and {_TIMES} times what it is given,") from None

    def close(self) -> None:
        self.requests.close()
        self.replies.close()


class _Worker:
    """The process, started when it is first needed; one that has ended is started anew for the next request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def ask(self, request: bytes) -> Any:
        """Return the reply to a request: what failed, text, spans. Raises InputError, StepError: as `render`."""
        with self._lock:
            child = self._child = self._child or _start()
            try:
                reply = json.loads(child.ask(request))
                if reply[0] == "memory":
                    raise _too_much(f"takes more than {MEMORY_MB} MiB of memory")
                return reply
            except EOFError:
                code = child.process.wait()
                self.end()
                raise self._ended(code) from None
            except BaseException:  # the next request must not read the reply to this one
                self.end()
                raise

    def end(self) -> None:
        """Kill the process."""
        child, self._child = self._child, None
        if child:
            child.process.kill()
            child.process.wait()
            child.close()

    def leave(self) -> None:
        """Leave the process to our parent, which has forked us, perhaps while one of its threads held the lock."""
        child, self._child, self._lock = self._child, None, threading.Lock()
        if child:
            child.process.returncode = 0  # none of ours to wait for
            child.close()

    def _ended(self, code: int) -> Exception:
        if code == -signal.SIGXCPU:
            return _too_much(f"takes more than {SECONDS} s of CPU time")
        return StepError(f"the process that renders chat templates has ended (exit code {code}): give the step more "
                         "memory, and run again")


_WORKER = _Worker()
atexit.register(_WORKER.end)
os.register_at_fork(after_in_child=_WORKER.leave)


def _start() -> _Child:
    found = [spec.origin for name in ("jinja2", "markupsafe") if (spec := find_spec(name)) and spec.origin]
    environment = {"PYTHONPATH": os.pathsep.join(str(Path(each).parents[1]) for each in found), "PYTHONHASHSEED": "0"}
    environment |= {"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}
    (asked, requests), (replies, said) = Pipe(duplex=False), Pipe(duplex=False)
    try:
        with asked, said:
            process = subprocess.Popen(
                [sys.executable, "-s", "-S", "-P", "-B", "-X", "utf8", str(_CHILD), str(MEMORY_MB), str(SECONDS),
                 str(os.getpid())],
                stdin=asked.fileno(), stdout=said.fileno(), stderr=subprocess.DEVNULL, env=environment, cwd="/",
                start_new_session=True)  # fmt: skip
    except OSError as error:
        raise StepError(f"no process could be started that renders chat templates ({error}): give the step more memory "
                        "and processes, and run again") from error
    return _Child(process, requests, replies)
