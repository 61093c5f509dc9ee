"""Diagnosis of ranks that failed or hang: which came first, where each stands, the usual cause, and whether the same
may work in a new process."""

import re
import signal
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from argosy.core.config.load import parse_yaml
from argosy.core.errors import ArgosyError, InputError, StepError
from argosy.core.store.step_files import rank_log

_SILENT_S = 2.5  # a rank that died without a word did so up to this long before it was noticed
_WAITED = re.compile(r"Timed out waiting \d+ms|collective operation timeout")  # gloo's words, NCCL's
_FRAME = re.compile(r'File "(.+?)", line (\d+) in (\S+)')
_LIBRARY = re.compile(r"\((torch|deepspeed|transformers|lib/python[\d.]*)/")
_WAITS = ("torch/distributed/", "torch/autograd/graph.py", "deepspeed/comm/")  # files of ranks that wait for others
_ENDED = (-signal.SIGTERM, 128 + signal.SIGTERM)
_MEMORY = "see the kernel's log; if memory was short, raise resources.STAGE.memory_gb"
LOST = "lost process"  # in causes.yaml
_TAIL = 20_000  # characters of a log


class RankFailed(StepError):
    """The failure of a rank: `about` has rank, cause and advice; `again`: the same may work in a new process."""

    def __init__(self, message: str, about: Mapping[str, Any] | None = None, *, again: bool = False) -> None:
        super().__init__(message)
        self.about, self.again = dict(about or {}), again


class RankKilled(RankFailed):
    """The error of a rank that was killed from outside, as the kernel does where memory is short."""

    exit_code = 128 + signal.SIGKILL


@dataclass(frozen=True)
class Stack:
    """A rank's main thread: its state as the kernel names it (T: stopped, D: in the disk), frames innermost first."""

    state: str = ""
    frames: list[str] = field(default_factory=list)

    @property
    def caller(self) -> str:
        """The innermost frame that is not a library's."""
        return next((frame for frame in self.frames if not _LIBRARY.search(frame)), "")

    @property
    def place(self) -> tuple[str, str]:
        """The innermost frame, without its line, and the caller."""
        return (re.sub(r":\d+\)", ")", self.frames[0]) if self.frames else "", self.caller)

    @property
    def waits(self) -> bool:
        """Whether it waits for other ranks."""
        return bool(self.frames) and any(name in self.frames[0] for name in _WAITS)


@dataclass
class GroupEnd:
    """The end of a node's ranks in a round.

    Attributes:
        ends: what ranks wrote last, by rank; nothing of one that was killed.
        exits: exit code, and time, of ranks that failed, by rank.
        starved: ranks that the kernel killed for want of memory.
        frozen: what is said of ranks that gave no sign of life.
        late: what is said of ranks whose training step hung.
        stacks: where ranks stood then.
        used: peak memory in MiB and seconds of cores that a node's processes used, by its place."""

    ends: dict[int, dict[str, Any]] = field(default_factory=dict)
    exits: dict[int, tuple[int, float]] = field(default_factory=dict)
    starved: dict[int, bool] = field(default_factory=dict)
    frozen: dict[int, str] = field(default_factory=dict)
    late: dict[int, str] = field(default_factory=dict)
    stacks: dict[int, Stack] = field(default_factory=dict)
    used: dict[int, list[float]] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)

    @classmethod
    def read(cls, record: Mapping[str, Mapping[str, Any]]) -> "GroupEnd":
        """Read what `record` made, after JSON turned its numbers into text."""
        parts = {name: {int(rank): value for rank, value in part.items()} for name, part in record.items()}
        parts["stacks"] = {rank: Stack(**value) for rank, value in parts.get("stacks", {}).items()}
        return cls(**parts)

    def only_saved(self) -> bool:
        """Tell whether no rank failed but by the SIGTERM that has it save."""
        return not (self.frozen or self.late or any(code not in _ENDED for code, _ in self.exits.values()))

    def complete(self) -> bool:
        """Tell whether the ranks were done, whatever came while their interpreters ended."""
        done = all(self.ends.get(rank, {}).get("exit_code") == 0 for rank in self.exits)
        return done and not (self.frozen or self.late) and "outputs" in self.ends.get(0, {})

    def add(self, other: "GroupEnd") -> None:
        """Take the ranks of another node in."""
        for name, ranks in vars(self).items():
            ranks.update(getattr(other, name))


@dataclass(frozen=True)
class Cause:
    """A usual cause of failures, as causes.yaml has it."""

    cause: str
    pattern: str
    advice: str
    again: bool


def read_state(pid: int) -> str:
    """Return the state of a process's main thread as the kernel names it; "" where there is none."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def read_stack(pid: int, text: str) -> Stack:
    """Read what faulthandler wrote of a process; the main thread is the last one."""
    main = re.split(r"^.*\(most recent call first\):\n", text, flags=re.MULTILINE)[-1]
    return Stack(read_state(pid), [f"{name} ({_short(path)}:{line})" for path, line, name in _FRAME.findall(main)])


def _short(path: str) -> str:
    return path.rpartition("site-packages/")[2] if "site-packages/" in path else "/".join(path.split("/")[-3:])


def hang(late: Mapping[int, str], stacks: Mapping[int, Stack]) -> RankFailed:
    """Name the rank that others wait for: it is stopped, or does not wait, or stands where most do not; all of them
    where no place has most."""
    odd = [rank for rank, stack in stacks.items() if stack.state == "T"]  # for certain; the others may just be slow
    odd = odd or [rank for rank, stack in stacks.items() if stack.state in ("", "D") or not stack.frames]
    odd = odd or [rank for rank, stack in stacks.items() if not stack.waits]
    if len(odd) in (0, len(stacks)) and len(stacks) > 1:
        [(often, count)] = Counter(stack.place for stack in stacks.values()).most_common(1)
        odd = [rank for rank, stack in stacks.items() if stack.place != often or 2 * count <= len(stacks)]
    said = next(iter(late.values()), "a training step hangs")
    where = [f"rank {rank}: {_where(stacks[rank])}" for rank in odd]
    others = sorted({_where(stack) for rank, stack in stacks.items() if rank not in odd})
    rest = f"{'other ranks' if odd else 'all ranks'}: {' or '.join(others)}"
    about = {"rank": odd[0] if 0 < len(odd) < max(2, len(stacks)) else None, "cause": "hang", "ranks": odd,
             "stacks": {rank: stack.frames[:12] for rank, stack in stacks.items()}}
    log = rank_log(next(iter(odd or stacks), 0))
    seen = "; ".join([*where, *([rest] if others else [])])
    return RankFailed(f"{said}: {seen}; each rank's stacks are in its log, such as {log}", about, again=True)


def _where(stack: Stack) -> str:
    if stack.state == "T":
        return "stopped (SIGSTOP, or a debugger)"
    if stack.state == "D":
        return "waiting for a disk or a network file system" + (f" in {stack.frames[0]}" if stack.frames else "")
    if not stack.frames:
        return "no stack"
    called = f" of {stack.caller}" if stack.caller not in ("", stack.frames[0]) else ""
    return f"{'waiting ' if stack.waits else ''}in {stack.frames[0]}{called}"


def first_failure(group: GroupEnd, out: Path) -> ArgosyError:
    """Pick the failure that came first: that of the others follows from it, since they wait for each other."""
    if group.late:
        return hang(group.late, group.stacks)
    if group.frozen:
        rank, text = next(iter(group.frozen.items()))
        cause = "node" if text.startswith("node") else "frozen"
        return RankFailed(text, {"rank": rank, "cause": cause}, again=True)
    if checked := next((end for end in group.ends.values() if "bad" in end), None):
        return RankFailed(checked["message"], {name: checked[name] for name in (
            "cause", "bad", "measured", "rank", "advice")})
    found: list[tuple[float, int, ArgosyError]] = []
    for rank in group.ends.keys() | group.exits.keys():
        end, (code, ended) = group.ends.get(rank, {}), group.exits.get(rank, (0, 0.0))
        if end.get("exit_code"):
            found.append((float(end["time"]), rank, _told(rank, end, out)))
        elif code not in (0, *_ENDED):  # one that was done came first where no other failed: they were ended for it
            when = float("inf") if end else ended - _SILENT_S
            found.append((when, rank, _silent(rank, code, out, starved=rank in group.starved)))
    if not found:
        return RankFailed(f"the ranks ended before they were done; their logs are {rank_log(0)}, ...", again=True)
    # Whoever lost another process was not the first; times are of whole seconds.
    _, rank, error = min(found, key=lambda each: (getattr(each[2], "about", {}).get("cause") == LOST, *each[:2]))
    late = sorted(other for other in group.exits if other != rank and other not in group.ends)
    if late and _WAITED.search(str(error)):
        return RankFailed(f"rank {' or '.join(map(str, late))} did not arrive where rank {rank} waited ({error}): see "
                          f"{', '.join(map(rank_log, late))}", {"rank": late[0], "cause": "hang"}, again=True)
    return error


def _told(rank: int, end: Mapping[str, Any], out: Path) -> ArgosyError:
    message = f"rank {rank} failed: {end['message']}; its log is {rank_log(rank)}"
    if end["exit_code"] == InputError.exit_code:  # of no rank: all have the same config
        return InputError(end["message"])
    if end["kind"] == "RankFailed":  # said by all of them alike
        about = {name: end.get(name) for name in ("rank", "ranks", "cause", "advice")}
        return RankFailed(end["message"], about, again=True)
    if end["kind"] == "StepError":
        return RankFailed(message, {"rank": rank})
    return _explained(message, rank, str(end["message"]), out)


def _silent(rank: int, code: int, out: Path, *, starved: bool) -> RankFailed:
    log = f"its log is {rank_log(rank)}"
    if starved:
        return RankKilled(f"rank {rank} was killed, as its machine or container was out of memory; {log}",
                          {"rank": rank, "cause": "memory of the machine", "advice": _MEMORY})
    if code == -signal.SIGKILL:
        return RankKilled(f"rank {rank} was killed by SIGKILL (out of memory?); {log}",
                          {"rank": rank, "cause": "killed", "advice": _MEMORY}, again=True)
    killed, ended = code < 0 and f"was killed by {signal.Signals(-code).name}", f"ended with exit code {code}"
    text = killed or f"{ended} before it was done"
    return _explained(f"rank {rank} {text}; {log}", rank, "", out, again=code < 0)


def _explained(message: str, rank: int, text: str, out: Path, *, again: bool = False) -> RankFailed:
    """Add the usual cause of what the error says, or else the end of the rank's log since its start."""
    cause = cause_of(text) or cause_of(_tail(out / rank_log(rank)))
    if cause is None:
        return RankFailed(message, {"rank": rank}, again=again)
    about = {"rank": rank, "cause": cause.cause, "advice": cause.advice}
    return RankFailed(f"{message} ({cause.cause}: {cause.advice})", about, again=cause.again)


def _tail(log: Path) -> str:
    with suppress(OSError):
        return re.split(r"^.* rank \d+ of \d+, process ", log.read_text(errors="replace")[-_TAIL:], flags=re.M)[-1]
    return ""


def cause_of(text: str) -> Cause | None:
    """Return the usual cause that `text` speaks of, if any."""
    return next((cause for cause in _causes() if re.search(cause.pattern, text)), None)


@cache
def _causes() -> tuple[Cause, ...]:
    found = parse_yaml(Path(__file__).with_name("causes.yaml").read_text(encoding="utf-8"))
    return tuple(Cause(**each) for each in found)
