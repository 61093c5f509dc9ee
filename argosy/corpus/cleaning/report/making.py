"""The report of cleaning: all that is counted and shown is gathered in one pass over the scores."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from argosy.core.config.explain import grouped
from argosy.core.lazy import np
from argosy.core.step.contract import Progress
from argosy.corpus.cleaning.batch import RECORDS, batches, record_text
from argosy.corpus.cleaning.dedup.external import Workspace
from argosy.corpus.cleaning.filter import Filter, Resources
from argosy.corpus.cleaning.filters.decontamination import Decontamination, DecontaminationConfig, contaminated
from argosy.corpus.cleaning.gathering import Decisions
from argosy.corpus.cleaning.report.funnel import Funnel, Histograms, Languages, Repaired, samples
from argosy.corpus.cleaning.report.near_misses import NearMisses, clusters
from argosy.corpus.cleaning.scored import Block, ScoredCorpus
from argosy.corpus.cleaning.tiers import TierConfig, Tiers
from argosy.corpus.data.jsonl import JsonlWriters, read_jsonl
from argosy.corpus.data.schemas import Document

CONTAMINATED = "contaminated.jsonl"  # of a clean step: where items were found
ITEMS = "items.jsonl"  # of a data step: what decontamination looks for
# `twin.jsonl` has the benchmark on purpose.
_FILES = ("instructions", "instructions_heldout", "preferences", "preferences_heldout", "feedback", "feedback_heldout",
          "prompts")


class Contaminated:
    """Documents with an item, in the order of the corpus: id, channel, suite, item, kind of match, overlap."""

    def __init__(self, filters: Mapping[str, Filter[Any]], corpus: ScoredCorpus,
                 items: Sequence[Mapping[str, Any]]) -> None:
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
    kinds = grouped((str(row["suite"]), row["match"]) for row in rows)
    return {suite: dict(Counter(each)) for suite, each in kinds.items()}


class Tally(Protocol):
    """Tallies that are gathered block by block."""

    def add(self, block: Block) -> None:
        """Look at the documents of a block; blocks come in the corpus's order."""


@dataclass(frozen=True)
class Made:
    """The report as JSON, the counts by channel, and what people should be told, a line each."""

    report: dict[str, Any]
    funnel: Funnel
    notes: list[str]


@dataclass(frozen=True)
class ReportMaker:
    """Parts of which a report is made; `data`: directory of the data step, if any, `count`: samples of each kind."""

    filters: Mapping[str, Filter[Any]]
    corpus: ScoredCorpus
    decisions: Decisions
    data: Path | None
    tiers: Sequence[TierConfig]
    count: int

    def make(self, out: Path, work: Workspace, progress: Progress) -> Made:
        """Put documents into tiers, count, and write `contaminated.jsonl` to `out`: where benchmark items were found.
        Raises InputError: a tier asks for a score or a channel that is not there."""
        filters, corpus, decisions = self.filters, self.corpus, self.decisions
        tiers = Tiers(self.tiers, corpus, work) if self.tiers else None
        if tiers:  # before the funnel, which counts them
            decisions.tiers, decisions.tier_names = tiers.codes, [tier.name for tier in self.tiers]
        items = list(read_jsonl(self.data / ITEMS)) if self.data else []
        funnel, repaired, languages = Funnel(corpus, decisions), Repaired(filters), Languages(filters, decisions)
        contaminated, histograms = Contaminated(filters, corpus, items), Histograms(filters)
        near = NearMisses(filters, corpus, decisions, self.count)
        every: list[Tally] = [tiers] if tiers else []
        every += [funnel, repaired, languages, contaminated, histograms, near]
        for block in corpus.blocks():
            progress.update(block.first, len(corpus), "documents", "report")
            for one in every:
                one.add(block)
        report = funnel.to_json() | {"clusters": clusters(filters, corpus, decisions, self.count),
                                     "samples": samples(corpus, decisions, self.count),
                                     "near_misses": near.to_json(), "languages": languages.to_json(),
                                     "found": repaired.to_json(), "scores": histograms.to_json()}
        if self.data:
            report |= _contamination(contaminated.rows, self.data, items, out)
        notes = list(tiers.empty(funnel.tiers)) if tiers else []
        marked = any(isinstance(one, Decontamination) and one.config.action == "mark" for one in filters.values())
        if marked and contaminated.rows:
            notes.append(f"{len(contaminated.rows)} finds of benchmark items in documents, which are marked and not "
                         f"dropped: see {out / CONTAMINATED}")
        return Made(report, funnel, notes)


def _contamination(documents: Sequence[Mapping[str, Any]], data: Path, items: Sequence[Mapping[str, Any]],
                   out: Path) -> dict[str, Any]:
    """Write where benchmark items were found, a row each, and return their counts for the report."""
    records = in_records(data, items)
    with JsonlWriters(out) as writers:
        name = CONTAMINATED.removesuffix(".jsonl")
        writers.write_all(name, documents)
        writers.write_all(name, ({"file": file, **row} for file, rows in records.items() for row in rows))
    return {"contamination": {name: len(rows) for name, rows in records.items()}, "contaminated": count(documents)}
