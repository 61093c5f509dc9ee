"""The cleaned corpus: documents of scored shards, less those that the clean step decided against."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Self

from argosy.core.config.explain import grouped
from argosy.core.errors import InputError
from argosy.core.lazy import Integers, Integers32, np
from argosy.core.store.files import make_directory, read_json, write_json
from argosy.core.store.step_files import given_directory, read_outputs
from argosy.corpus.cleaning.dedup.spans import without
from argosy.corpus.cleaning.gathering import Decisions
from argosy.corpus.cleaning.scoring import KEPT
from argosy.corpus.cleaning.tiers import NO_TIER, tier_channel
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.shards import read_columns, shard_files
from argosy.corpus.data.split import heldout_ids

REPORT = "report.json"
DECISIONS = "decisions"  # of the clean step: files by the shard's number
REASONS = "reasons.json"
CUT = "cut"  # among what changed a document: parts that other documents have were cut out
TIERS = "tiers.json"  # names of tiers, where the config has any; then each shard has a file of their numbers
_FIELDS = ("id", "text", "channel", "lang", "source", "metadata")


def write_decisions(clean: Path, decisions: Decisions, firsts: Sequence[int]) -> None:
    """Write what was decided about each shard's documents: codes, what is cut out, reasons, and copies by filter.

    firsts: number of each shard's first document, and at last of all documents."""
    folder = make_directory(clean / DECISIONS)
    for number, (begin, end) in enumerate(pairwise(firsts)):
        np.save(folder / f"{number:05}.npy", decisions.codes[begin:end])
        spans = np.concatenate([np.zeros((0, 3), np.int64), *decisions.cuts(slice(begin, end)).values()])
        np.save(folder / f"{number:05}.spans.npy", spans[np.lexsort((spans[:, 1], spans[:, 0]))])
        if decisions.tiers is not None:
            np.save(folder / f"{number:05}.tiers.npy", decisions.tiers[begin:end])
    for label, copies in decisions.copies.items():
        np.save(folder / f"copies.{label}.npy", copies)
    for label, earlier in decisions.earlier.items():
        write_json(folder / f"earlier.{label}.json", {one.of: [one.corpus, one.id] for one in earlier})
    write_json(folder / REASONS, decisions.reasons)
    if decisions.tier_names:
        write_json(folder / TIERS, decisions.tier_names)


@dataclass(frozen=True)
class KeptCorpus:
    """Documents that are trained on, in the order of the corpus.

    Attributes:
        clean: directory of a clean step.
        scored: directories of the score steps that it gathered, in their order."""

    clean: Path
    scored: Sequence[Path]

    @classmethod
    def of(cls, clean: str, scored: Sequence[str]) -> Self:
        """Take the directories that a step was given. Raises InputError: one is absent, unfinished or incomplete."""
        directory = given_directory("documents", clean, "clean")
        parts = [given_directory("scored", each, "score") for each in scored]
        if len(parts) != (count := read_outputs(directory, "documents")["shards"]):
            raise InputError(f"scored names {len(parts)} directories, and {clean} has gathered {count}: name those of "
                             "its score steps, in their order")
        return cls(directory, parts)

    def cuts(self, number: int) -> dict[int, list[tuple[int, int]]]:
        """Return what is cut out of documents of a shard: by their number in it, from where to where, in order."""
        spans = np.load(self.clean / DECISIONS / f"{number:05}.spans.npy").tolist()
        return grouped((row, (begin, end)) for row, begin, end in spans)

    def heldout(self, share: float, least: int) -> dict[str, frozenset[str]]:
        """Return by channel the ids of the documents that tokenizing holds out."""
        rows = self._rows(("channel", "id"), dropped=False)  # without reading texts
        ids = grouped((channel, name) for _, (channel, name) in rows)
        return {channel: heldout_ids(names, share, least) for channel, names in ids.items()}

    def licences(self) -> dict[str, Counter[str]]:
        """Count by channel the licences that documents name in their metadata; "" for none."""
        found: dict[str, Counter[str]] = {}
        for _, (channel, metadata) in self._rows(("channel", "metadata"), dropped=False):
            known = json.loads(metadata)
            named = next((str(known[key]) for key in ("license", "licence") if known.get(key)), "")
            found.setdefault(channel, Counter())[named] += 1
        return found

    def documents(self) -> Iterator[Document]:
        """Yield each document."""
        for _, values in self._rows(_FIELDS, dropped=False):
            yield _document(values)

    def changed(self) -> Iterator[tuple[Document, list[str]]]:
        """Yield each document with its offset, and what changed its text: filters, and CUT."""
        for _, values in self._rows((*_FIELDS, "offset", "changed"), dropped=False):
            *fields, offset, changed = values
            yield replace(_document(fields), offset=offset), changed

    def dropped(self) -> Iterator[tuple[Document, str, str]]:
        """Yield each document that goes, as repaired, with the filter and the reason."""
        reasons = self.reasons()
        for code, values in self._rows(_FIELDS, dropped=True):
            yield _document(values), *reasons[code]

    def channels(self) -> list[str]:
        """List all channels, those of tiers too, also those of which nothing is kept."""
        report = read_json(self.clean / REPORT)
        return sorted([*report["channels"], *report.get("tiers", ())])

    def sizes(self) -> dict[str, int]:
        """Return the UTF-8 bytes of each channel that has documents."""
        report = read_json(self.clean / REPORT)
        left = {name: Counter({key: counts[key] for key in ("out", "bytes_out")})
                for name, counts in report["channels"].items()}
        for name, counts in report.get("tiers", {}).items():
            left[name] = Counter({key: counts[key] for key in ("out", "bytes_out")})
            left[counts["of"]].subtract(left[name])
        return {name: counts["bytes_out"] for name, counts in left.items() if counts["out"]}

    def codes(self, shard: int) -> Integers32:
        """Return the number of the reason why each document of a shard goes, or KEPT, (documents,)."""
        return np.asarray(np.load(self.clean / DECISIONS / f"{shard:05}.npy"))

    def reasons(self) -> list[tuple[str, str]]:
        """Return (label of the filter, reason) by number."""
        return [(label, reason) for label, reason in read_json(self.clean / DECISIONS / REASONS)]

    def decision(self, shard: int, row: int) -> tuple[str, str] | None:
        """Return the filter and the reason that a document is dropped for; None: it is kept."""
        code = int(self.codes(shard)[row])
        return None if code == KEPT else self.reasons()[code]

    def tier(self, shard: int, row: int, channel: str) -> str:
        """Return the channel that tiers put a document of `channel` in; its own where none does."""
        names = self.clean / DECISIONS / TIERS
        if not names.is_file():
            return channel
        number = int(np.load(names.with_name(f"{shard:05}.tiers.npy"), mmap_mode="r")[row])
        return channel if number == NO_TIER else tier_channel(channel, read_json(names)[number])

    def has_copies(self, label: str) -> bool:
        """Tell whether a filter looks for copies."""
        return (self.clean / DECISIONS / f"copies.{label}.npy").is_file()

    def earlier(self, label: str, of: int) -> str:
        """Name the document of an earlier corpus that a filter has given this negative number."""
        number, name = read_json(self.clean / DECISIONS / f"earlier.{label}.json")[str(of)]
        return f"{name} of clean.against[{number}]"

    def copies(self, label: str) -> Integers:
        """Return what a deduplicator has dropped: (number in the corpus, number of the one that stays), (n, 2)."""
        return np.asarray(np.load(self.clean / DECISIONS / f"copies.{label}.npy"))

    def _rows(self, columns: Sequence[str], dropped: bool) -> Iterator[tuple[int, list[Any]]]:
        """Yield (code of the decision, columns) of each document kept or dropped, its text as it was cut."""
        place = columns.index("text") if "text" in columns else None
        names = read_json(self.clean / DECISIONS / TIERS) if (self.clean / DECISIONS / TIERS).is_file() else []
        for number, directory in enumerate(self.scored):
            tiers = np.load(self.clean / DECISIONS / f"{number:05}.tiers.npy").tolist() if names else []
            codes = self.codes(number).tolist()
            cuts = self.cuts(number)
            groups = (group for path in shard_files(directory) for group in read_columns(path, columns))
            rows = chain.from_iterable(zip(*group.values.values(), strict=True) for group in groups)
            for at, row in enumerate(rows):
                if (codes[at] == KEPT) is not dropped:
                    values = list(row)
                    if place is not None and at in cuts:
                        values[place] = without(values[place], cuts[at])
                        if "changed" in columns:
                            values[columns.index("changed")] = [*values[columns.index("changed")], CUT]
                    if tiers and not dropped and tiers[at] != NO_TIER and "channel" in columns:
                        own = columns.index("channel")
                        values[own] = tier_channel(values[own], names[tiers[at]])
                    yield codes[at], values


def _document(values: Sequence[Any]) -> Document:
    return Document(**dict(zip(_FIELDS, values, strict=True)) | {"metadata": json.loads(values[-1])})
