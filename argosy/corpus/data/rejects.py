"""Records of whole files, and the lines of them that cannot be used: set aside with their place and reason."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from argosy.core.errors import InputError
from argosy.corpus.data.jsonl import JSONL, MOST_BYTES, JsonlWriters, Reject, parse_or_reject
from argosy.corpus.data.schemas import parse_record

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


@dataclass
class Tally:
    """Counts lines (rows of a table) with text or a record, and those set aside, by reason; blank ones are
    neither."""

    read: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    first: str = ""
    """Place and value of the first of them, where one file is read."""
    unread: Counter[str] = field(default_factory=Counter)
    """Keys of messages that nothing reads."""

    def check(self, what: str, rejects_at: str) -> None:
        """Refuse input that is mostly unreadable: it is most likely not what its name says.

        Raises InputError: nothing was read, or more was rejected than read."""
        bad = sum(self.rejected.values())
        reasons = ", ".join(f"{reason}: {count}" for reason, count in self.rejected.most_common()) + self.first
        if self.read == 0:
            raise InputError(f"{what}: all {bad} lines are unreadable ({reasons}); see {rejects_at}. {remedy(reasons)}"
                             if bad else f"{what}: it holds no text")
        if bad > self.read:
            raise InputError(
                f"{what}: {bad} of {bad + self.read} lines are unreadable, more than half ({reasons}); "
                f"they are in {rejects_at}. {remedy(reasons)}"
            )


_REMEDIES = {
    "no field": "Name the field that holds the text as data.source.text_field, or take the file out",
    "invalid UTF-8": "Convert it to UTF-8 (as iconv -f gb18030 -t utf-8 does), which records such as data.instructions "
                     "must be; or, of data.inputs alone, name its encoding as data.source.encoding (such as gb18030; "
                     "auto: as it seems), or take it out",
    "NUL byte": "It is no text, or UTF-16: convert it to UTF-8, or, of data.inputs, set data.source.encoding=utf-16, "
                "or take it out",
    "UTF-8 and not": "Set data.source.encoding=auto where files differ, or utf-8",
    "NaN or Infinity": "Write null for it",
    "longer than": "Take it out, or, of data.inputs alone, raise data.source.record_bytes",
    "cut off": "Copy or make it anew, or take it out",
    "damaged": "Copy or make it anew, or take it out"
}


def remedy(why: str) -> str:
    """Say what to do about an input that is mostly unreadable, by the reasons that are named first."""
    places = {why.find(reason): words for reason, words in _REMEDIES.items() if reason in why}
    general = "Correct them, check the format and the names of fields, or take the file out"
    return places[min(places)] if places else general


@dataclass
class Rejects:
    """Records of a data step that a later step cannot use; `write` keeps them in `<out>/rejects/`."""

    rejects: list[Reject] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Count them by reason, in the order of the reasons' names."""
        return dict(sorted(Counter(reject.reason for reject in self.rejects).items()))

    def write(self, out: Path) -> None:
        """Write `rejects/<file>.jsonl` for each file that had some, and say so in the log."""
        with JsonlWriters(out / "rejects") as writers:
            for reject in self.rejects:
                writers.write(Path(reject.file).stem, reject.to_record())
        for reason, count in self.counts().items():
            _LOG.warning("%d lines set aside (%s); see %s", count, reason, out / "rejects")


def read_records(path: Path, parse: Callable[[dict[str, Any]], T], rejects: Rejects) -> list[T]:
    """Return `parse` of each line of `path`; a line where it raises ParseError goes to `rejects`.

    Raises InputError: the file does not exist, is empty, or no line of it can be used."""
    if not path.is_file():
        raise InputError(f"{path} does not exist: run the data step that writes it, or correct the file's name")
    good, bad = _read(path, parse)
    rejects.rejects.extend(bad)
    if not good:
        counts = ", ".join(f"{n} x {reason}" for reason, n in Counter(r.reason for r in bad).most_common())
        raise InputError(f"{path} has no usable record: {counts or 'it is empty'}")
    return good


def check_own(kind: str, path: Path) -> None:
    """Check that the user's own file for the field `data.<kind>` can be one. Raises InputError: it cannot."""
    if not path.is_file() or not path.name.lower().endswith(JSONL):
        raise InputError(f"data.{kind}: {path} is not a file that can be read; allowed: {', '.join(JSONL)}")
    if not path.stat().st_size:
        raise InputError(f"data.{kind}: {path} is empty (0 bytes), allowed: a record on each line")


def read_own(kind: str, path: Path, writers: JsonlWriters, rejects_at: str) -> tuple[list[dict[str, Any]], Tally]:
    """Return the records of the user's own file for the field `data.<kind>`; bad lines go to `rejects/<kind>`.

    Raises InputError: the file is mostly unusable."""
    records, rejects = _read(path, partial(parse_record, kind), MOST_BYTES)
    first = "".join(f"; line {each.line}: {each.reason}" + (f", but it is {each.value}" if each.value else "")
                    for each in rejects[:1])
    tally = Tally(len(records), Counter(reject.reason for reject in rejects), first)
    for reject in rejects:
        writers.write(f"rejects/{kind}", reject.to_record())
    writers.finish(f"rejects/{kind}")  # a refusal points to them
    tally.check(f"data.{kind} {path}", rejects_at)
    return records, tally


def _read(path: Path, parse: Callable[[dict[str, Any]], T], most: int = 0) -> tuple[list[T], Sequence[Reject]]:
    good: list[T] = []
    bad: list[Reject] = []
    for line in parse_or_reject(path, lambda _, record: parse(record), most=most):
        bad.append(line) if isinstance(line, Reject) else good.append(line)
    return good, bad
