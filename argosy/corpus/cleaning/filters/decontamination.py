"""Removal of documents that contain benchmark items.

A long question is found by any 13-gram of its words (Brown et al. 2020, appendix C; lm-eval does the same), and by
alignment where light edits leave no such n-gram; a short one as a whole, question mark included: "The artist who
painted the Mona Lisa is ..." is honest prose and has the words of a question. Without the mark ("The capital of France
is") the words count only where at least three of the item's options follow, in any order; so do questions that several
items share. An order without options ("Compute the sum of the first ten primes.") counts from eight words on. A short
question in Chinese begins where no Han character stands before it: 白俄罗斯 (Belarus) is not 俄罗斯 (Russia).
docs/deduplication.md has the rules and what they find."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Rule, Scores, Share
from argosy.corpus.cleaning.items import MATCHES, ItemIndex


class DecontaminationConfig(FilterConfig):
    """Thresholds of decontamination."""

    name: str = "decontamination"
    ngram: Annotated[int, Field(ge=4)] = 13
    """Words (or half the Han characters) from which on a question matches by any n-gram."""
    similarity: Annotated[float, Field(gt=0.5, le=1)] = 0.75
    """Least share of a question's words that an edited copy has left."""
    action: Literal["drop", "mark"] = "drop"
    """drop: documents with an item go; mark: they stay, and are named in the report."""
    max_overlap: Share = 0.0
    """Largest share of an item's n-grams (of an edited question: words) that a document may have."""


class Decontamination(Filter[DecontaminationConfig]):
    """A filter that looks the words of documents up among the benchmarks' questions.

    Scores, of the item that a document has most of: `overlap` (0: none), `item` (its number) and `match` (the number of
    its kind in MATCHES, from 1)."""

    scoring: ClassVar[tuple[str, ...]] = ("ngram", "similarity")

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        overlap, item, match = (np.full(len(batch), np.nan) for _ in range(3))
        if self.resources.benchmark:
            overlap[:] = 0
            for found in reversed(self._index.find(batch.points, batch.starts)):  # the best of each text comes first
                overlap[found.text] = found.overlap
                item[found.text], match[found.text] = found.item, MATCHES.index(found.kind) + 1
        return batch, {"overlap": overlap, "item": item, "match": match}

    def rules(self) -> Sequence[Rule]:
        """List the threshold, unless documents are only marked."""
        dropped = self.config.action == "drop"
        return (Rule("overlap", "benchmark item", most=self.config.max_overlap),) if dropped else ()

    @cached_property
    def _index(self) -> ItemIndex:
        return ItemIndex(self.resources.benchmark, self.config.ngram, self.config.similarity)


def contaminated(scores: Scores, benchmark: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each document with an item, and what was found: suite, item, kind of match, overlap.

    scores: those of this filter, made with the items `benchmark`."""
    for number in np.flatnonzero(scores["overlap"] > 0).tolist():
        item = benchmark[int(scores["item"][number])]
        yield number, {"suite": str(item.get("suite", "benchmark")),
                       "item": str(item.get("id", int(scores["item"][number]))),
                       "match": MATCHES[int(scores["match"][number]) - 1],
                       "overlap": round(float(scores["overlap"][number]), 4)}
