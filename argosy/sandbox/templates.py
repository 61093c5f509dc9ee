"""Chat templates, rendered in a process of limited time and memory that lives as long as ours (template_child.py).

A template is a program that comes with a model: it may loop for ever or fill the memory, which no thread can end."""

import atexit
import json
import marshal
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from argosy.errors import InputError, StepError

SECONDS = 30  # of CPU time for a conversation, which takes milliseconds
MEMORY_MB = 1024
_WALL_SECONDS = 600  # of any time, which pass sooner on a busy machine
_CHILD = Path(__file__).with_name("template_child.py")
_SIZE = 8  # bytes of a length


class TemplateRefusal(InputError):
    """The template refuses the messages, or fails with them."""


class Rendered(NamedTuple):
    """A text, and begin and end of each {% generation %} block in it, in characters."""

    text: str
    spans: list[tuple[int, int]]


def render(template: str, values: Mapping[str, Any], marks: bool = False) -> Rendered:
    """Render a template of `values` (of JSON's types) as transformers does; `marks`: with the spans.

    Raises TemplateRefusal: it refuses, or fails; InputError: it takes more than SECONDS or MEMORY_MB; StepError: its
    process cannot be started, or was killed."""
    reply = _WORKER.ask(marshal.dumps((template, dict(values), marks)))
    failed, text, spans = json.loads(reply)
    if failed == "memory":
        _WORKER.end()
        raise _too_much(f"{MEMORY_MB} MiB of memory")
    if failed:
        raise TemplateRefusal(f"the chat template refuses it: {text}")
    return Rendered(text, [(begin, end) for begin, end in spans])


def _too_much(what: str) -> InputError:
    return InputError(f"the chat template of the checkpoint's tokenizer takes more than {what} for one conversation: "
                      "correct its chat_template, or choose one: template=chatml|qwen|llama3|mistral|zephyr|gemma")


class _Worker:
    """The process, started when it is first needed; one that has ended is started anew for the next request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # a fork of ours needs a process of its own

    def ask(self, request: bytes) -> bytes:
        """Return the reply to a request. Raises InputError, StepError: as `render`."""
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                self._process, self._owner = _start(), os.getpid()
            try:
                return _exchange(self._process, len(request).to_bytes(_SIZE, "big") + request)
            except (EOFError, BrokenPipeError):
                code = self._process.wait()
                self._process = None
                raise self._ended(code) from None
            except BaseException:  # the next request must not read the reply to this one
                self.end()
                raise

    def end(self) -> None:
        """Kill the process, if it is ours."""
        process, self._process = self._process, None
        if process and self._owner == os.getpid():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()

    def _ended(self, code: int) -> Exception:
        if code == -signal.SIGXCPU:
            return _too_much(f"{SECONDS} s of CPU time")
        return StepError(f"the process that renders chat templates has ended (exit code {code}): give the step more "
                         "memory, and run again")


_WORKER = _Worker()
atexit.register(_WORKER.end)


def _start() -> "subprocess.Popen[bytes]":
    found = [spec.origin for name in ("jinja2", "markupsafe") if (spec := find_spec(name)) and spec.origin]
    environment = {"PYTHONPATH": os.pathsep.join(str(Path(each).parents[1]) for each in found), "PYTHONHASHSEED": "0"}
    environment |= {"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}
    try:
        return subprocess.Popen(
            [sys.executable, "-s", "-S", "-P", "-B", "-X", "utf8", str(_CHILD), str(MEMORY_MB), str(SECONDS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd="/",
            bufsize=0, start_new_session=True)  # fmt: skip
    except OSError as error:
        raise StepError(f"no process could be started that renders chat templates ({error}): give the step more memory "
                        "and processes, and run again") from error


def _exchange(process: "subprocess.Popen[bytes]", request: bytes) -> bytes:
    """Send a request and return the reply. Raises EOFError, BrokenPipeError: the process has ended."""
    assert process.stdin
    assert process.stdout
    deadline = time.monotonic() + _WALL_SECONDS
    view = memoryview(request)
    while view:
        view = view[os.write(process.stdin.fileno(), view) :]
    size = int.from_bytes(_read(process.stdout.fileno(), _SIZE, deadline), "big")
    return _read(process.stdout.fileno(), size, deadline)


def _read(file: int, size: int, deadline: float) -> bytes:
    held, ready = bytearray(), select.poll()
    ready.register(file, select.POLLIN)
    while len(held) < size:
        if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise StepError(f"the chat template has not ended after {_WALL_SECONDS} s, though it had little CPU "
                            "time: run again on a machine that is less busy")
        part = os.read(file, size - len(held))
        if not part:
            raise EOFError
        held += part
    return bytes(held)
