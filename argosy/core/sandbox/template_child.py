"""The program of the process that renders chat templates, each of which is a program of whoever made a model.

It is run by its path, outside of any package. The environment is that of transformers: sandboxed and immutable, with
loop controls, JSON, refusals and the date, and with the places of `{% generation %}`. It reads requests from its
standard input (their length, then `marshal`), and writes replies (their length, then JSON), until the input ends.

Memory is limited for the process, CPU time for each request: over it, the kernel ends the process (SIGXCPU). It has no
environment, and can write no file and, where it is not root's, start no process."""

import ctypes
import json
import marshal
import os
import resource
import signal
import sys
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any

from jinja2 import Template, TemplateError, nodes, pass_eval_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

_SIZE = 4  # bytes of a length, as multiprocessing's connections have it
_LONGEST = 300  # characters of an error that is shown
_FILES = 16  # open at once: modules that are imported late
_PR_SET_PDEATHSIG = 1
_NO_MEMORY = b'["memory", "", []]'


def main() -> None:
    """Render what is requested, until there are no more requests."""
    memory, seconds, parent = int(sys.argv[1]) * 2**20, int(sys.argv[2]), int(sys.argv[3])
    _end_with(parent)
    _give_up(memory)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    while len(head := sys.stdin.buffer.read(_SIZE)) == _SIZE:
        try:
            request = sys.stdin.buffer.read(int.from_bytes(head, "big"))
            spent = resource.getrusage(resource.RUSAGE_SELF)
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_CPU, (int(spent.ru_utime + spent.ru_stime) + 1 + seconds, most))
            reply = _reply(request)
        except MemoryError:
            reply = _NO_MEMORY
        sys.stdout.buffer.write(len(reply).to_bytes(_SIZE, "big"))
        sys.stdout.buffer.write(reply)
        sys.stdout.buffer.flush()
        if reply is _NO_MEMORY:  # and what was not read stands before the next request
            return


def _end_with(parent: int) -> None:
    """End as soon as the parent has: others that it forked may hold our pipes open (Linux).

    The kernel signals the end of the thread that started us, too, after which the process may live on."""
    if not sys.platform.startswith("linux"):
        return

    def check(*_: Any) -> None:
        if os.getppid() != parent:
            os._exit(1)

    signal.signal(signal.SIGUSR1, check)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGUSR1), 0, 0, 0)
    check()  # it may have died before the line above


def _give_up(memory: int) -> None:
    """Give up memory above a limit, in bytes, the environment, writing to files, and processes of our own."""
    for name in {*os.environ} - {"TZ"}:  # of which dates are made
        del os.environ[name]
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NPROC, 0),
                       (resource.RLIMIT_NOFILE, _FILES), (resource.RLIMIT_AS, memory)):
        with suppress(ValueError, OSError):  # a lower limit stands already, or the system has none
            resource.setrlimit(what, (most, most))


def _reply(request: bytes) -> bytes:
    """Return JSON: ["", text, spans of generation blocks], or [what failed, message, []]. Raises MemoryError."""
    try:
        return _json(["", *_render(*marshal.loads(request))])
    except MemoryError:
        raise
    except TemplateError as error:
        said = str(error)
    except Exception as error:  # whatever a program can raise
        said = f"{type(error).__name__}: {error}"
    return _json(["refused", said[:_LONGEST], []])


def _json(reply: list[Any]) -> bytes:
    return json.dumps(reply, ensure_ascii=False).encode(errors="surrogatepass")


def _render(template: str, values: dict[str, Any], marks: bool) -> tuple[str, list[tuple[int, int]]]:
    compiled, tracker = _compiled(template)
    tracker.spans, tracker.length = [], 0
    if not marks:
        return compiled.render(values), []
    blocks = []
    for block in compiled.generate(values):
        blocks.append(block)
        tracker.length += len(block)
    return "".join(blocks), tracker.spans


class Generation(Extension):
    """The block {% generation %}, and where the text of each lies."""

    tags = {"generation"}  # noqa: RUF012 (declared by jinja)
    spans: list[tuple[int, int]]
    length: int

    def parse(self, parser: Any) -> Any:
        """Make a call of `marked` of the block."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("marked"), [], [], body).set_lineno(line)

    @pass_eval_context
    def marked(self, _: Any, caller: Any) -> str:
        """Return the block's text, and note its place."""
        text: str = caller()
        self.spans.append((self.length, self.length + len(text)))
        return text


class Names(Namespace):
    """A namespace without attributes that lead to CPython's internals."""

    def __init__(*given: Any, **named: Any) -> None:  # a template may name one `self`
        Namespace.__init__(given[0])
        for name, value in dict(*given[1:], **named).items():
            Names.__setitem__(given[0], name, value)

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"a namespace takes no attribute {name!r}")
        Namespace.__setitem__(self, name, value)


class Dicts:
    """The function `dict`, not the type, which has more attributes."""

    def __call__(self, *given: Any, **named: Any) -> dict[Any, Any]:
        return dict(*given, **named)

    def fromkeys(self, *given: Any) -> dict[Any, Any]:
        """Make a dict of keys."""
        return dict.fromkeys(*given)


def _refuse(message: str) -> None:
    raise TemplateError(message)


@lru_cache(maxsize=16)
def _compiled(template: str) -> tuple[Template, Generation]:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = lambda value, ensure_ascii=False, indent=None, separators=None, sort_keys=False: (
        json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys))
    environment.globals |= {"raise_exception": _refuse, "dict": Dicts(), "namespace": Names,
                            "strftime_now": lambda form: datetime.now().strftime(form)}
    tracker = next(each for each in environment.extensions.values() if isinstance(each, Generation))
    return environment.from_string(template), tracker


if __name__ == "__main__":
    main()
