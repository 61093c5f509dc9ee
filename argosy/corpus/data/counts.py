"""Counts of what was read of each file and set aside, by reason; inputs that are mostly unreadable are refused."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from argosy.core.errors import InputError
from argosy.corpus.data.jsonl import JsonlWriters, Reject, parse_or_reject
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import MAX_CHANNELS, InputFile, channel_name

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


@dataclass
class Tally:
    """Counts lines (rows of a table) with text or a record, and those set aside, by reason; blank ones are neither."""

    read: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    first: str = ""
    """Place and value of the first of them, where one file is read."""
    unread: Counter[str] = field(default_factory=Counter)
    """Keys of messages that nothing reads."""

    def check(self, what: str, rejects_at: str) -> None:
        """Refuse input that is mostly unreadable: it is most likely not what its name says. Raises InputError: nothing
        was read, or more was rejected than read."""
        bad = sum(self.rejected.values())
        reasons = ", ".join(f"{reason}: {count}" for reason, count in self.rejected.most_common()) + self.first
        if self.read == 0:
            raise InputError(f"{what}: all {bad} lines are unreadable ({reasons}); see {rejects_at}. {remedy(reasons)}"
                             if bad else f"{what}: it holds no text")
        if bad > self.read:
            raise InputError(
                f"{what}: {bad} of {bad + self.read} lines are unreadable, more than half ({reasons}); "
                f"they are in {rejects_at}. {remedy(reasons)}")


_REMEDIES: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


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
    """Return `parse` of each line of `path`; a line where it raises ParseError goes to `rejects`. Raises InputError:
    the file does not exist, is empty, or no line of it can be used."""
    if not path.is_file():
        raise InputError(f"{path} does not exist: run the data step that writes it, or correct the file's name")
    every = list(parse_or_reject(path, lambda _, record: parse(record), most=0))
    good, bad = [each for each in every if not isinstance(each, Reject)], [e for e in every if isinstance(e, Reject)]
    rejects.rejects.extend(bad)
    if not good:
        counts = ", ".join(f"{n} x {reason}" for reason, n in Counter(r.reason for r in bad).most_common())
        raise InputError(f"{path} has no usable record: {counts or 'it is empty'}")
    return good


@dataclass
class FileCounts:
    """Counts of one file: lines, rows or records that hold text, and rejects by reason."""

    documents: int = 0
    read: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    no_text: Counter[str] = field(default_factory=Counter)
    """Whole records that hold no text, such as images of a WARC, by reason; they are rejects without a fault."""
    damaged: str = ""
    """Why it could not be read to its end, with the place; "" where it could."""

    def problem(self) -> str:
        """Say why it is most likely not what its name says; "": it is."""
        if self.damaged or (bad := self.rejected.total()) <= self.read:
            return self.damaged
        reasons = ", ".join(f"{reason}: {count}" for reason, count in self.rejected.most_common(3))
        return f"{bad} of {bad + self.read} lines, rows or records are unreadable ({reasons})"


@dataclass
class Counts:
    """Counts of the files of a shard, or of all: `merge` gathers them."""

    files: dict[str, FileCounts] = field(default_factory=dict)
    """Counts by a file's label."""
    channels: Counter[str] = field(default_factory=Counter)
    """Documents by channel."""
    given: dict[str, str] = field(default_factory=dict)
    """Name that the user's files gave each channel."""
    _names: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def name_channel(self, given: str, place: str) -> str:
        """Return the name of a channel. Raises InputError: another channel has it, or there are too many."""
        if (known := self._names.get(given)) is None:
            known = self._names[given] = channel_name(given)
            self._note_channel(known, given, place)
        return known

    def _note_channel(self, name: str, given: str, place: str) -> None:
        if (first := self.given.setdefault(name, given)) != given:
            first, given = sorted((first, given))
            raise InputError(f"the channels {first!r} and {given!r} would both be named {name!r}, and their documents "
                             f"mixed: rename one, as in C and Cpp (seen at {place}), or set data.source.channel")
        if len(self.given) > MAX_CHANNELS:
            raise InputError(f"data.source.channel_field: there are more than {MAX_CHANNELS} channels (seen at "
                             f"{place}); a channel is a kind of text with its own loss: name another field, or set "
                             "data.source.channel")

    def count(self, file: InputFile, item: Document | Reject, lines: int) -> None:
        """Count an item of a file."""
        own = self.files[file.label]
        if isinstance(item, Document):
            own.documents += 1
            own.read += lines
            self.channels[item.channel] += 1
        else:
            (own.rejected if item.fault else own.no_text)[item.reason] += lines

    def merge(self, other: "Counts") -> None:
        """Add those of another shard. Raises InputError: as `name_channel`."""
        for label, theirs in other.files.items():
            own = self.files.setdefault(label, FileCounts())
            own.documents += theirs.documents
            own.read += theirs.read
            own.rejected.update(theirs.rejected)
            own.no_text.update(theirs.no_text)
            own.damaged = own.damaged or theirs.damaged
        self.channels.update(other.channels)
        for name, given in other.given.items():
            self._note_channel(name, given, f"documents of channel {name}")

    def rejected(self) -> dict[str, int]:
        """Count rejects by reason, with those that have no fault."""
        total = sum((own.rejected + own.no_text for own in self.files.values()), Counter[str]())
        return dict(sorted(total.items()))

    def empty(self) -> list[str]:
        """List the files that were read and held nothing."""
        return [label for label, own in self.files.items()
                if not own.documents and not own.rejected and not own.no_text]

    def damaged(self) -> dict[str, str]:
        """Name the files that could not be read to their end, or are mostly unreadable, and why."""
        return {label: why for label, own in self.files.items() if (why := own.problem())}

    def check(self, what: str, rejects_at: str) -> None:
        """Refuse inputs that are mostly unreadable, in all or a file of them: most likely not what their names say.

        One bad file among many is that file's loss, which `damaged` names. Raises InputError: nothing was read, more
        was rejected than read, or more than a tenth of the files are bad."""
        bad = [label for label, own in self.files.items() if own.problem()]
        if 10 * len(bad) <= len(self.files):
            bad = []
        more = f" (and likewise {', '.join(bad[1:5])}{', ...' if bad[5:] else ''})" if bad[1:] else ""
        for label in bad[:1]:
            own = self.files[label]
            if own.damaged:
                raise InputError(f"data.inputs: {label}{more} cannot be read to its end: {own.damaged}. "
                                 f"{remedy(own.damaged)}")
        total = Tally()
        for own in self.files.values():
            total.read += own.read
            total.rejected.update(own.rejected)
        total.check(what, rejects_at)
        for label in bad[:1]:  # lines of another file are no excuse
            Tally(self.files[label].read, self.files[label].rejected).check(f"data.inputs: {label}{more}", rejects_at)

    def to_json(self) -> dict[str, Any]:
        """Make the object that a shard's part writes."""
        files = {label: {"documents": own.documents, "read": own.read, "rejected": dict(sorted(own.rejected.items())),
                         "no_text": dict(sorted(own.no_text.items())), "damaged": own.damaged}
                 for label, own in self.files.items()}
        return {"files": files, "channels": dict(sorted(self.channels.items())),
                "given": dict(sorted(self.given.items()))}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Counts":
        """Read what `to_json` made."""
        files = {label: FileCounts(own["documents"], own["read"], Counter(own["rejected"]), Counter(own["no_text"]),
                                   own["damaged"]) for label, own in record["files"].items()}
        return cls(files, Counter(record["channels"]), dict(record["given"]))


def gather(parts: Iterable[Counts]) -> Counts:
    """Add the counts of all shards up. Raises InputError: two channels of one name, or too many."""
    total = Counts()
    for part in parts:
        total.merge(part)
    return total
