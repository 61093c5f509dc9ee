"""The report of cleaning: all that is counted and shown is gathered in one pass over the scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from argosy.core.step.contract import Progress
from argosy.corpus.cleaning.dedup.external import Workspace
from argosy.corpus.cleaning.filter import Filter
from argosy.corpus.cleaning.filters.decontamination import Decontamination
from argosy.corpus.cleaning.gathering import Decisions
from argosy.corpus.cleaning.report.contamination import CONTAMINATED, ITEMS, Contaminated, count, in_records
from argosy.corpus.cleaning.report.funnel import Funnel, Repaired, samples
from argosy.corpus.cleaning.report.histograms import Histograms, Languages
from argosy.corpus.cleaning.report.near_misses import NearMisses, clusters
from argosy.corpus.cleaning.scored import Block, ScoredCorpus
from argosy.corpus.cleaning.tiers import TierConfig, Tiers
from argosy.corpus.data.jsonl import JsonlWriters, read_jsonl


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


def _contamination(
    documents: Sequence[Mapping[str, Any]], data: Path, items: Sequence[Mapping[str, Any]], out: Path
) -> dict[str, Any]:
    """Write where benchmark items were found, a row each, and return their counts for the report."""
    records = in_records(data, items)
    with JsonlWriters(out) as writers:
        name = CONTAMINATED.removesuffix(".jsonl")
        writers.write_all(name, documents)
        writers.write_all(name, ({"file": file, **row} for file, rows in records.items() for row in rows))
    return {"contamination": {name: len(rows) for name, rows in records.items()}, "contaminated": count(documents)}
