"""Lines that could not be read: kept aside with their place and reason, byte for byte."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from argosy.errors import InputError


@dataclass(frozen=True, slots=True)
class Reject:
    """A piece of a file (line `line`, from 1; 0 = the whole file) that is not a usable record."""

    file: str
    line: int
    reason: str
    raw: bytes

    def to_record(self) -> dict[str, Any]:
        """JSON: the bytes as text where they are UTF-8, else as base64."""
        record: dict[str, Any] = {"file": self.file, "line": self.line, "reason": self.reason}
        try:
            return record | {"raw": self.raw.decode()}
        except UnicodeDecodeError:
            return record | {"raw_base64": base64.b64encode(self.raw).decode("ascii")}


@dataclass
class Tally:
    """What was read and what was set aside, by reason."""

    read: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    def check(self, what: str, rejects_at: str) -> None:
        """Refuse input that is mostly unreadable: it is most likely not what its name says.

        Raises:
            InputError: nothing was read, or more was rejected than read.
        """
        bad = sum(self.rejected.values())
        reasons = ", ".join(f"{reason}: {count}" for reason, count in self.rejected.most_common())
        if self.read == 0:
            found = f"all {bad} records are unreadable ({reasons}); see {rejects_at}" if bad else "it holds no text"
            raise InputError(f"{what}: {found}")
        if bad > self.read:
            raise InputError(
                f"{what}: {bad} of {bad + self.read} records are unreadable, more than half ({reasons}); "
                f"they are in {rejects_at}. Check the format, encoding (UTF-8) and field names"
            )
