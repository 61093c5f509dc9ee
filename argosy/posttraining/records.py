"""Read the JSONL that post-training learns from: good records, and the others by name."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from argosy.documents.files import open_binary
from argosy.documents.jsonl import JsonlWriters
from argosy.documents.parse import ParseError, parse_object, read_lines
from argosy.documents.rejects import Reject
from argosy.errors import InputError

T = TypeVar("T")
Message = Mapping[str, str]
ROLES = ("system", "user", "assistant")
log = logging.getLogger(__name__)


@dataclass
class Rejects:
    """Records that cannot be used, with file, line and reason; `write` keeps them in `<out>/rejects/`."""

    found: list[Reject] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How many by reason, in the order of the reasons' names."""
        return dict(sorted(Counter(reject.reason for reject in self.found).items()))

    def write(self, out: Path) -> None:
        """Write `rejects/<file>.jsonl` for each file that had some, and say so in the log."""
        with JsonlWriters(out / "rejects") as writers:
            for reject in self.found:
                writers.write(Path(reject.file).stem, reject.to_record())
        for reason, count in self.counts().items():
            log.warning("%d records set aside (%s); see %s", count, reason, out / "rejects")


def read_records(path: Path, parse: Callable[[dict[str, Any]], T], rejects: Rejects) -> list[T]:
    """`parse` of each line of `path`; where it raises ParseError, the line goes to `rejects`.

    Raises:
        InputError: the file does not exist, is empty, or no line of it can be used.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist: run the data step that writes it, or correct the file's name")
    good: list[T] = []
    bad: list[Reject] = []
    with open_binary(path) as stream:
        for number, raw, problem in read_lines(stream):
            try:
                if problem:
                    raise ParseError(problem)
                good.append(parse(parse_object(raw)))
            except ParseError as error:
                bad.append(Reject(path.name, number, str(error), raw.rstrip(b"\n")))
    rejects.found.extend(bad)
    if not good:
        counts = ", ".join(f"{n} x {reason}" for reason, n in Counter(r.reason for r in bad).most_common())
        raise InputError(f"{path} has no usable record: {counts or 'it is empty'}")
    return good


def check_messages(value: Any, name: str) -> Sequence[Message]:
    """`value` if it is a non-empty list of {"role", "content"}.

    Raises:
        ParseError: it is not; the message names what is wrong.
    """
    if not isinstance(value, list) or not value:
        raise ParseError(f"{name} is not a list of messages")
    for message in value:
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise ParseError(f"{name} has a message whose role is not one of {', '.join(ROLES)}")
        if not isinstance(message.get("content"), str) or not message["content"].strip():
            raise ParseError(f"{name} has a message without content")
    return [{"role": message["role"], "content": message["content"]} for message in value]
