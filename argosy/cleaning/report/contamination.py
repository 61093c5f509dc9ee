"""What was found of benchmark items, and where: in documents that were scored, and in records for post-training."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.cleaning.batch import Batch
from argosy.cleaning.filter import Filter, Resources
from argosy.cleaning.filters.decontamination import Decontamination, DecontaminationConfig, contaminated
from argosy.cleaning.records import record_text
from argosy.cleaning.shard import ScoredShard
from argosy.data.jsonl import read_jsonl
from argosy.data.schemas import Document

ITEMS = "items.jsonl"  # of a data step: what decontamination looks for
# `twin.jsonl` has the benchmark on purpose.
_FILES = ("instructions", "instructions_heldout", "preferences", "preferences_heldout", "feedback", "feedback_heldout",
          "prompts")


def in_documents(
    filters: Mapping[str, Filter[Any]], shards: Sequence[ScoredShard], items: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each document with an item, in the order of the corpus: id, channel, suite, item, kind of match,
    overlap.

    items: those that the shards were scored with, in their order."""
    labels = [label for label, one in filters.items() if isinstance(one, Decontamination)]
    for shard in shards if items else ():
        for label in labels:
            if not len(shard):
                continue
            scores = {name: shard.scores[f"{label}.{name}"] for name in ("overlap", "item", "match")}
            rows = list(contaminated(scores, items))
            ids = shard.column("id", [number for number, _ in rows])
            for (number, found), document in zip(rows, ids, strict=True):
                yield {"document": document, "channel": str(shard.channels[number]), **found}


def in_records(data: Path, items: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """List the records that hold an item, as `decontamination` finds it, by file of a data step's directory: line of
    the file, suite, item, kind of match, overlap."""
    look = Decontamination(DecontaminationConfig(), Resources(benchmark=items))
    found: dict[str, list[dict[str, Any]]] = {}
    for name in _FILES:
        if (data / f"{name}.jsonl").is_file():
            documents = [Document("", record_text(record), name) for record in read_jsonl(data / f"{name}.jsonl")]
            scores = look(Batch(documents))[1] if items else {}
            found[name] = [{"line": at + 1, **what} for at, what in contaminated(scores, items)] if items else []
    return found


def count(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Count rows by suite and kind of match."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        kinds = counts.setdefault(str(row["suite"]), {})
        kinds[row["match"]] = kinds.get(row["match"], 0) + 1
    return counts
