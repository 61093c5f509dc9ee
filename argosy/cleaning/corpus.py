"""One pass of a corpus through the filters, its report, and benchmark items among the records for post-training."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import nsmallest
from pathlib import Path
from typing import Any

from argosy.cleaning.filter import Drop, Filter, Resources
from argosy.cleaning.filters.decontamination import Decontamination, DecontaminationConfig
from argosy.cleaning.records import record_text
from argosy.data.jsonl import JsonlWriters, read_jsonl
from argosy.data.schemas import Document

_COUNTS = ("in", "out", "bytes_in", "bytes_out")  # documents and their UTF-8 bytes
_SAMPLE_CHARACTERS = 300


@dataclass
class ChannelReport:
    """Counts of one channel; documents in = documents out + all of `dropped`."""

    counts: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    changed: Counter[str] = field(default_factory=Counter)

    def count(self, document: Document, way: str) -> None:
        """Count a document that goes `in` or `out`."""
        self.counts[way] += 1
        self.counts[f"bytes_{way}"] += len(document.text.encode())

    def to_json(self) -> dict[str, Any]:
        """Make the object of docs/architecture.md."""
        dropped = {name: dict(reasons) for name, reasons in self.dropped.items()}
        return {key: self.counts[key] for key in _COUNTS} | {"dropped": dropped, "changed": dict(self.changed)}


class Report:
    """Counts that gather while documents pass; `to_json` is the clean step's report.json."""

    def __init__(self, samples_per_reason: int) -> None:
        self.channels: dict[str, ChannelReport] = defaultdict(ChannelReport)
        self.samples: list[dict[str, str]] = []
        self._samples_per_reason = samples_per_reason
        self._sampled: Counter[tuple[str, str]] = Counter()

    def drop(self, document: Document, name: str, reason: str) -> None:
        """Count a document that filter `name` dropped; its text is as it was at that point."""
        self.channels[document.channel].dropped[name][reason] += 1
        if self._sampled[name, reason] < self._samples_per_reason:
            self._sampled[name, reason] += 1
            text = document.text[:_SAMPLE_CHARACTERS]
            self.samples.append({"filter": name, "reason": reason, "channel": document.channel, "text": text})

    def to_json(self) -> dict[str, Any]:
        """Make the object of docs/architecture.md, without "found"."""
        channels = {name: channel.to_json() for name, channel in self.channels.items()}
        return {"channels": channels, "samples": self.samples}


def clean_corpus(
    documents: Iterable[Document], filters: Sequence[Filter[Any]], writers: JsonlWriters, report: Report
) -> Iterator[int]:
    """Write `documents/<channel>` and `rejects/<filter>`; yield the number of documents so far.

    A reject is the document as it entered, with `filter` and `reason`: nothing that a filter changed before is lost."""
    for number, document in enumerate(documents, 1):
        report.channels[document.channel].count(document, "in")
        writers.open(f"documents/{document.channel}")
        current = document
        for one in filters:
            config = one.config
            if current.channel in config.skip_channels:
                continue
            result = one(current)
            if isinstance(result, Drop):
                report.drop(current, config.name, result.reason)
                extra = {"filter": config.name, "reason": result.reason}
                writers.write(f"rejects/{config.name}", document.to_record() | extra)
                break
            if result is not current:
                report.channels[result.channel].changed[config.name] += 1
                current = result
        else:
            report.channels[current.channel].count(current, "out")
            writers.write(f"documents/{current.channel}", current.to_record())
        yield number


def sample_documents(documents: Iterable[Document], count: int) -> list[Document]:
    """Take `count` documents by the least hash of their ids: the same ones in any order of the corpus."""
    if count == 0:
        return []
    return nsmallest(count, documents, key=lambda document: blake2b(document.id.encode(), digest_size=8).digest())


# `twin.jsonl` has the benchmark on purpose.
_FILES = ("instructions", "instructions_heldout", "preferences", "preferences_heldout", "feedback", "feedback_heldout",
          "prompts")


def contamination(data: Path, benchmark: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count the records with an item's question, as `decontamination` finds it, by file of a data step's directory."""
    look = Decontamination(DecontaminationConfig(), Resources(benchmark=list(benchmark)))
    return {
        name: sum(isinstance(look(Document(name, record_text(record), name)), Drop)
                  for record in read_jsonl(data / f"{name}.jsonl"))
        for name in _FILES
        if (data / f"{name}.jsonl").is_file()
    }
