"""Decides when all shards are scored: rules by their scores, copies by their keys, in the filters' order."""

import shutil
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from argosy.core.lazy import Flags, Integers, Integers32, np
from argosy.core.step.contract import Progress
from argosy.corpus.cleaning.dedup.deduplicator import Deduplicator
from argosy.corpus.cleaning.dedup.external import Workspace
from argosy.corpus.cleaning.dedup.index import EarlierDocument
from argosy.corpus.cleaning.dedup.spans import SpanDeduplicator, join_spans, span_sizes, without
from argosy.corpus.cleaning.filter import Filter, Rule
from argosy.corpus.cleaning.scored import ScoredCorpus
from argosy.corpus.cleaning.scores import CHANNEL
from argosy.corpus.cleaning.scoring import KEPT, broken

_SHORT = 64  # characters: of so few it is looked whether they are all space


@dataclass
class Decisions:
    """Decisions about the documents of a corpus.

    Attributes:
        codes: the number of the reason why each document goes, or KEPT: (documents,), int32.
        reasons: (label of the filter, reason) by number.
        copies: by filter, number of each dropped copy in the corpus and of the document that it is a copy of, (n, 2).
        spans: by filter, what is cut out of documents: number, first code point, end, (n, 3), in the documents' order.
        earlier: by filter, documents of earlier corpora that others are copies of.
        tiers: the number of each document's tier (`tiers.assign`), (documents,), int32; None where the config has none.
        tier_names: of the tiers, by number."""

    codes: Integers32
    reasons: list[tuple[str, str]] = field(default_factory=list)
    copies: dict[str, Integers] = field(default_factory=dict)
    spans: dict[str, Integers] = field(default_factory=dict)
    earlier: dict[str, list[EarlierDocument]] = field(default_factory=dict)
    tiers: Integers32 | None = None
    tier_names: list[str] = field(default_factory=list)

    @property
    def kept(self) -> Flags:
        """Tell of all documents of the corpus whether they are kept so far."""
        kept: Flags = self.codes == KEPT
        return kept

    def code(self, label: str, reason: str) -> int:
        """Return the number of a reason, which is new or not."""
        if (label, reason) not in self.reasons:
            self.reasons.append((label, reason))
        return self.reasons.index((label, reason))

    def cuts(self, rows: slice) -> dict[str, Integers]:
        """Return by filter what is cut out of the documents with these numbers, numbered from the first of them."""
        found = {}
        for label, spans in self.spans.items():  # np.searchsorted would copy the column each time
            begin, end = (bisect_left(spans, place, key=itemgetter(0)) for place in (rows.start, rows.stop))
            if end > begin:
                found[label] = spans[begin:end] - [rows.start, 0, 0]
        return found


def apply_rules(filters: Sequence[Mapping[str, Filter[Any]]], corpus: ScoredCorpus, decisions: Decisions,
                work: Workspace) -> list[Integers32]:
    """Judge all documents in one pass by several groups of filters (by label), each group as if it were alone.

    Returns:
        By group the number of each document's reason, the first rule's that it breaks, or KEPT: (documents,), int32."""
    codes = [work.array(f"group-{number}", (len(corpus),), np.int32) for number in range(len(filters))]
    rules = [[(label, one, rule, decisions.code(label, rule.reason)) for label, one in group.items()
              for rule in one.rules()] for group in filters]
    names = {name for group in rules for label, _, rule, _ in group for name in _scores(label, rule)}
    for block in corpus.blocks((CHANNEL, *sorted(names))):
        scores = block.scores
        for group, every in zip(rules, codes, strict=True):
            own = every[block.rows]
            own[:] = KEPT
            for label, one, rule, code in group:
                goes = (own == KEPT) & broken(rule, label, scores)
                if one.config.skip_channels:
                    goes &= ~block.in_channels(one.config.skip_channels)
                own[goes] = code
    return codes


def _scores(label: str, rule: Rule | None) -> Iterable[str]:
    """Name the scores that a rule looks at."""
    while rule:
        yield f"{label}.{rule.score}"
        rule = rule.also


def decide(filters: Mapping[str, Filter[Any]], corpus: ScoredCorpus, work: Workspace, earlier: Sequence[Path],
           progress: Progress) -> Decisions:
    """Run through the filters in their order: each decides among the documents that those before have kept; then drop
    those of which their cuts leave too little together."""
    decisions = Decisions(work.array("codes", (len(corpus),), np.int32))
    decisions.codes[:] = KEPT
    for label, one in filters.items():  # numbers of reasons come in the filters' order
        for reason in (one.reasons if isinstance(one, Deduplicator) else [rule.reason for rule in one.rules()]):
            decisions.code(label, reason)
    progress.update(0, len(filters), "filters", "rules")
    groups = groupby(filters.items(), lambda item: isinstance(item[1], Deduplicator))
    runs = [(copies, dict(run)) for copies, run in groups]
    judged = iter(apply_rules([run for copies, run in runs if not copies], corpus, decisions, work))
    for copies, run in runs:
        if not copies:
            np.copyto(decisions.codes, next(judged), where=decisions.kept)
            continue
        for label, one in run.items():
            progress.update(list(filters).index(label), len(filters), "filters", label)
            assert isinstance(one, Deduplicator)
            own = Workspace(work.directory / label, work.memory_mb)
            drop_copies(label, one, corpus, decisions, own, earlier)
            shutil.rmtree(own.directory, ignore_errors=True)
    _drop_leftovers(filters, corpus, decisions)
    return decisions


def drop_copies(label: str, one: Deduplicator[Any], corpus: ScoredCorpus, decisions: Decisions, work: Workspace,
                earlier: Sequence[Path] = ()) -> None:
    """Drop copies among the documents that are kept so far, and cut repeated parts out of those that stay."""
    keys = [shard.keys(label) for shard in corpus.shards]
    found = one.select(keys, decisions.kept, corpus.about, work, earlier)
    codes = np.array([decisions.code(label, reason) for reason in one.reasons], np.int32)
    decisions.codes[found.documents] = codes[found.reasons]
    if len(found.spans):
        decisions.spans[label] = found.spans
    decisions.copies[label] = np.column_stack([found.documents, found.of])
    decisions.earlier[label] = one.earlier_documents(found, earlier)


def _drop_leftovers(filters: Mapping[str, Filter[Any]], corpus: ScoredCorpus, decisions: Decisions) -> None:
    """Drop documents that are kept, and of which more is cut than the largest `max_share` of the filters that cut, or
    all but space: by the last of these filters, as its other drops."""
    cutting = {label: one for label, one in filters.items() if isinstance(one, SpanDeduplicator)
               and len(decisions.spans.get(label, ()))}
    if not cutting:
        return
    spans = np.concatenate([decisions.spans[label] for label in cutting])
    spans = spans[decisions.kept[spans[:, 0]]]
    cuts = join_spans(spans[np.lexsort((spans[:, 1], spans[:, 0]))])
    documents, sizes = span_sizes(cuts)
    lengths = _lengths(corpus, next(iter(cutting)), documents)
    gone = sizes > max(one.config.max_share for one in cutting.values()) * lengths
    short = np.flatnonzero(~gone & (lengths - sizes <= _SHORT))
    bounds = np.searchsorted(cuts[:, 0], [documents[short], documents[short] + 1])
    for at, text, begin, end in zip(short, corpus.texts(documents[short]), *bounds, strict=True):
        gone[at] = not without(text, cuts[begin:end, 1:].tolist()).strip()
    label, one = list(cutting.items())[-1]
    decisions.codes[documents[gone]] = decisions.code(label, one.reasons[0])
    copies = np.concatenate([decisions.copies[label], np.column_stack([documents[gone]] * 2)])
    decisions.copies[label] = copies[np.argsort(copies[:, 0], kind="stable")]


def _lengths(corpus: ScoredCorpus, label: str, documents: Integers) -> Integers:
    """Return the code points of documents, ascending, by the keys of a filter that cuts."""
    found = [np.asarray(corpus.shards[number].keys(label)["lengths"][rows], np.int64)
             for number, rows in corpus.places(documents)]
    return np.concatenate([np.zeros(0, np.int64), *found])


def write_indexes(filters: Mapping[str, Filter[Any]], corpus: ScoredCorpus, kept: Flags, out: Path) -> None:
    """Write what a later corpus needs to be deduplicated against the documents that are kept at last."""
    for label, one in filters.items():
        if isinstance(one, Deduplicator):
            ids = (shard.column("id") for shard in corpus.shards)
            one.write_index(out, [shard.keys(label) for shard in corpus.shards], kept, corpus.about, ids)
