"""The document: what every step before the tokenizer reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Document:
    """One text with what is known about it.

    Attributes:
        id: unique in a corpus; the held-out split is a hash of it.
        text: never empty.
        channel: the group for mixing and for losses ("en", "code", "knowledge_zh"); a file name's part.
        lang: "zh", "en" or another ISO 639-1 code; "" when nobody has said.
        source: where it came from: a file name and line, a URL.
        metadata: anything else; cleaning does not look at it.
    """

    id: str
    text: str
    channel: str
    lang: str = ""
    source: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Document:
        """The document of a JSONL record (docs/architecture.md); other keys are ignored.

        Raises:
            KeyError: the record has no id, text or channel.
        """
        return cls(
            id=record["id"],
            text=record["text"],
            channel=record["channel"],
            lang=record.get("lang", ""),
            source=record.get("source", ""),
            metadata=record.get("metadata", {}),
        )

    def to_record(self) -> dict[str, Any]:
        """The JSON object of this document."""
        return {name: getattr(self, name) for name in self.__slots__}
