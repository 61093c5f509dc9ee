"""Counts benchmark items by where they are: in documents that were scored, and in records for post-training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import RECORDS, batches, record_text
from argosy.corpus.cleaning.filter import Filter, Resources
from argosy.corpus.cleaning.filters.decontamination import Decontamination, DecontaminationConfig, contaminated
from argosy.corpus.cleaning.scored import Block, ScoredCorpus
from argosy.corpus.data.jsonl import read_jsonl
from argosy.corpus.data.schemas import Document

CONTAMINATED = "contaminated.jsonl"  # of a clean step: where items were found
ITEMS = "items.jsonl"  # of a data step: what decontamination looks for
# `twin.jsonl` has the benchmark on purpose.
_FILES = ("instructions", "instructions_heldout", "preferences", "preferences_heldout", "feedback", "feedback_heldout",
          "prompts")


class Contaminated:
    """Documents with an item, in the order of the corpus: id, channel, suite, item, kind of match, overlap."""

    def __init__(
        self, filters: Mapping[str, Filter[Any]], corpus: ScoredCorpus, items: Sequence[Mapping[str, Any]]
    ) -> None:
        """Take the items that the shards were scored with, in their order."""
        self._labels = [label for label, one in filters.items() if isinstance(one, Decontamination)] if items else []
        self._corpus, self._items = corpus, items
        self.rows: list[dict[str, Any]] = []

    def add(self, block: Block) -> None:
        """Look at the documents of a block."""
        for label in self._labels:
            scores = {name: block.scores[f"{label}.{name}"] for name in ("overlap", "item", "match")}
            found = list(contaminated(scores, self._items))
            numbers = np.array([number for number, _ in found], np.int64) + block.first
            documents = self._corpus.rows(numbers, ("id", "channel"))
            self.rows += [{"document": name, "channel": channel, **what}
                          for (_, what), (name, channel) in zip(found, documents, strict=True)]


def in_records(data: Path, items: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """List the records that hold an item, as `decontamination` finds it, by file of a data step's directory: line of
    the file, suite, item, kind of match, overlap."""
    look = Decontamination(DecontaminationConfig(), Resources(benchmark=items))
    found: dict[str, list[dict[str, Any]]] = {}
    for name in _FILES:
        if (data / f"{name}.jsonl").is_file():
            found[name], first = [], 1
            records = read_jsonl(data / f"{name}.jsonl") if items else ()
            for batch in batches((Document("", record_text(record), name) for record in records), RECORDS):
                found[name] += [{"line": first + at, **what} for at, what in contaminated(look(batch)[1], items)]
                first += len(batch)
    return found


def count(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Count rows by suite and kind of match."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        kinds = counts.setdefault(str(row["suite"]), {})
        kinds[row["match"]] = kinds.get(row["match"], 0) + 1
    return counts
