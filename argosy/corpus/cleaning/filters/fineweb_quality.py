"""FineWeb's own rules (Penedo et al. 2024, "The FineWeb Datasets", section 3.4): lines that look like a list's."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Rule, Scores, Share


class FinewebQualityConfig(FilterConfig):
    """The paper's thresholds; a line of Chinese is short at half the characters."""

    name: str = "fineweb_quality"
    skip_channels: tuple[str, ...] = ("code",)
    min_line_punctuation_share: Share = 0.12
    """Smallest share of lines that end a sentence, by Unicode's property Sentence_Terminal."""
    pass_without_punctuation: bool = False
    """Whether a document passes in which no line at all ends a sentence."""
    short_line: Annotated[int, Field(ge=0)] = 30
    """Most characters of a short line."""
    chinese_short_line: Annotated[int, Field(ge=0)] = 15
    """The same in Chinese, of which two characters are a word."""
    max_short_line_share: Share = 0.67
    """Largest share of short lines."""
    max_duplicate_character_share: Share = 0.01
    """Largest share of characters in lines that occurred before."""
    max_newlines_per_word: Annotated[float, Field(ge=0)] = 0.3
    """Most newlines per word; a Han character is a word."""


class FinewebQuality(Filter[FinewebQualityConfig]):
    """A filter of lists, menus and repeated lines; lines that are blank do not count."""

    scoring: ClassVar[tuple[str, ...]] = ("short_line", "chinese_short_line")

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Measure the lines of each document."""
        from argosy.corpus.cleaning.kernels.characters import STOP, flags
        from argosy.corpus.cleaning.kernels.filters.fineweb_quality import line_counts

        short = np.where(batch.han, self.config.chinese_short_line, self.config.short_line)
        lines, ended, shorter, copied, newlines = line_counts(
            batch.points, batch.starts, (flags() & STOP) != 0, short).T
        some = np.maximum(lines, 1)
        return batch, {
            "lines": lines,
            "line_punctuation_share": ended / some,
            "short_line_share": shorter / some,
            "duplicate_character_share": copied / np.maximum(batch.lengths - newlines, 1),
            "newlines_per_word": newlines / np.maximum(batch.word_counts, 1)}

    def rules(self) -> Sequence[Rule]:
        """Look at the ends of lines, short lines, copies, then at newlines."""
        c = self.config
        some = Rule("line_punctuation_share", "", most=0) if c.pass_without_punctuation else None
        return [
            Rule("lines", "no text", least=1),
            Rule("line_punctuation_share", "few lines end a sentence", least=c.min_line_punctuation_share, also=some),
            Rule("short_line_share", "too many short lines", most=c.max_short_line_share),
            Rule("duplicate_character_share", "duplicate lines", most=c.max_duplicate_character_share),
            Rule("newlines_per_word", "too many newlines", most=c.max_newlines_per_word)]
