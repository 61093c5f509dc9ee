"""What cleaning did, for people: counts by channel, filter and reason, with samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from argosy.documents.record import Document

SAMPLE_CHARACTERS = 300


@dataclass
class ChannelCounts:
    """Documents and UTF-8 bytes of one channel; `documents_in` = `documents_out` + all of `dropped`."""

    documents_in: int = 0
    documents_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    changed: Counter[str] = field(default_factory=Counter)


class Report:
    """Gathers counts while documents pass; `to_json` is the clean step's report.json."""

    def __init__(self, samples_per_reason: int) -> None:
        self.channels: dict[str, ChannelCounts] = defaultdict(ChannelCounts)
        self.samples: list[dict[str, str]] = []
        self._samples_per_reason = samples_per_reason
        self._sampled: Counter[tuple[str, str]] = Counter()

    def came(self, document: Document) -> None:
        """A document entered."""
        channel = self.channels[document.channel]
        channel.documents_in += 1
        channel.bytes_in += len(document.text.encode())

    def kept(self, document: Document) -> None:
        """A document got through."""
        channel = self.channels[document.channel]
        channel.documents_out += 1
        channel.bytes_out += len(document.text.encode())

    def changed(self, document: Document, name: str) -> None:
        """Filter `name` changed a document."""
        self.channels[document.channel].changed[name] += 1

    def dropped(self, document: Document, name: str, reason: str) -> None:
        """Filter `name` dropped a document, whose text is as it was at that point."""
        self.channels[document.channel].dropped[name][reason] += 1
        if self._sampled[name, reason] < self._samples_per_reason:
            self._sampled[name, reason] += 1
            text = document.text[:SAMPLE_CHARACTERS]
            self.samples.append({"filter": name, "reason": reason, "channel": document.channel, "text": text})

    def to_json(self) -> dict[str, Any]:
        """The object of docs/architecture.md, without "found"."""
        return {"channels": {name: _channel(c) for name, c in sorted(self.channels.items())}, "samples": self.samples}


def _channel(c: ChannelCounts) -> dict[str, Any]:
    return {
        "in": c.documents_in,
        "out": c.documents_out,
        "bytes_in": c.bytes_in,
        "bytes_out": c.bytes_out,
        "dropped": {name: dict(sorted(reasons.items())) for name, reasons in sorted(c.dropped.items())},
        "changed": dict(sorted(c.changed.items())),
    }
