"""Gopher's repetition rules (Rae et al. 2021, table A1), for text with spaces and for Chinese."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Rule, Scores, Share

# Chinese counts in characters, of which a word has about two: n-grams are twice as long.
_HAN_SCALE = 2

Shares = Mapping[Annotated[int, Field(ge=1, le=50)], Share]


class GopherRepetitionConfig(FilterConfig):
    """Largest shares of repetition, of pieces or of the text's characters; the paper's by default.

    One departure: brackets, rules and fences repeat in any text with code or tables, and do not count as lines."""

    name: str = "gopher_repetition"
    skip_channels: tuple[str, ...] = ("code",)
    max_line_share: Share = 0.30
    """Lines that occurred before, among the lines."""
    max_paragraph_share: Share = 0.30
    """Paragraphs that occurred before, among the paragraphs."""
    max_line_character_share: Share = 0.20
    """Characters in lines that occurred before."""
    max_paragraph_character_share: Share = 0.20
    """Characters in paragraphs that occurred before."""
    lettered_pieces: bool = True
    """Whether only lines and paragraphs with a letter count; the paper's, of web pages, all do."""
    top_ngrams: Shares = Field({2: 0.20, 3: 0.18, 4: 0.16})
    """Characters in the most frequent n-gram, by n; 0 where none occurs twice."""
    duplicate_ngrams: Shares = Field({5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10})
    """Characters in n-grams that occurred before, by n."""


class GopherRepetition(Filter[GopherRepetitionConfig]):
    """A filter that drops text that says the same again and again."""

    scoring: ClassVar[tuple[str, ...]] = ("lettered_pieces",)

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Measure the shares of each document: the paper's n of n-grams, and those that the config names."""
        from argosy.corpus.cleaning.kernels.filters.gopher_repetition import duplicate, repeated, top

        scores, lettered = {}, self.config.lettered_pieces
        characters = np.maximum(batch.lengths, 1)
        for kind, newlines, stripped in (("paragraph", 2, True), ("line", 1, lettered)):
            pieces, before, inside = repeated(batch.points, batch.starts, newlines, stripped, lettered).T
            scores[f"{kind}_share"] = before / np.maximum(pieces, 1)
            scores[f"{kind}_character_share"] = inside / characters
        scale = np.where(batch.han, _HAN_SCALE, 1)
        for n in _sizes(self.config.top_ngrams, "top_ngrams"):
            scores[f"top_{n}"] = top(batch.words, n * scale, ~batch.han) / characters
        for n in _sizes(self.config.duplicate_ngrams, "duplicate_ngrams"):
            scores[f"duplicate_{n}"] = duplicate(batch.words, n * scale) / characters
        return batch, scores

    def rules(self) -> Sequence[Rule]:
        """Look at paragraphs, lines, frequent n-grams, then repeated ones."""
        c = self.config
        return [
            Rule("paragraph_share", "duplicate paragraphs", most=c.max_paragraph_share),
            Rule("paragraph_character_share", "duplicate paragraphs", most=c.max_paragraph_character_share),
            Rule("line_share", "duplicate lines", most=c.max_line_share),
            Rule("line_character_share", "duplicate lines", most=c.max_line_character_share),
            *(Rule(f"top_{n}", f"top {n}-gram", most=share) for n, share in sorted(c.top_ngrams.items())),
            *(Rule(f"duplicate_{n}", f"duplicate {n}-grams", most=share)
              for n, share in sorted(c.duplicate_ngrams.items()))]


def _sizes(shares: Mapping[int, float], field: str) -> list[int]:
    """List the n to measure: those of the paper, so that a changed share needs no new look, and others that are set."""
    return sorted({*GopherRepetitionConfig.model_fields[field].default, *shares})
