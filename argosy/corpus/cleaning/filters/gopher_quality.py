"""Gopher's quality rules (Rae et al. 2021, "Scaling Language Models", appendix A.1.1), for English and Chinese."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from argosy.core.lazy import Flags, Floats, np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Rule, Scores, read_words

_CHINESE_STOP_WORDS = tuple(read_words("stop_words_zh.txt"))
_FEW = 20  # characters below which a Chinese sentence may well do without a stop word


class GopherQualityConfig(FilterConfig):
    """Thresholds. A Chinese text's words are its characters, so its mean word length is not looked at.

    Three departures from the paper, whose corpus was web pages: it wants 50 words, but a short article
    is not noise; more stop words count; and documentation has tables, so fewer words need letters (paper: 0.8)."""

    name: str = "gopher_quality"
    skip_channels: tuple[str, ...] = ("code",)
    min_words: Annotated[int, Field(ge=0)] = 10
    """Fewest words."""
    max_words: Annotated[int, Field(ge=1)] = 100_000
    """Most words."""
    min_mean_word_length: float = 3.0
    """Smallest mean length of a word, in characters."""
    max_mean_word_length: float = 10.0
    """Largest mean length of a word, in characters."""
    max_symbol_word_ratio: float = 0.1
    """Most `#` and ellipses, as a share of the words."""
    max_bullet_line_share: float = 0.9
    """Largest share of lines that begin with a bullet."""
    max_ellipsis_line_share: float = 0.3
    """Largest share of lines that end with an ellipsis."""
    min_alphabetic_word_share: float = 0.5
    """Smallest share of words with a letter."""
    min_stop_words: Annotated[int, Field(ge=0)] = 2
    """Fewest different stop words."""
    stop_words: tuple[str, ...] = tuple(read_words("stop_words_en.txt"))
    """Stop words of texts that are not Chinese."""
    bullets: Annotated[str, Field(min_length=1)] = "•-*·●"
    """Signs that are bullets at the beginning of a line."""

    def check_fields(self) -> None:
        for what in ("words", "mean_word_length"):
            least, most = getattr(self, f"min_{what}"), getattr(self, f"max_{what}")
            if least > most:
                raise ValueError(f"min_{what} is {least} and max_{what} is {most}, so that no text passes, allowed: "
                                 f"min_{what} up to max_{what}")


class GopherQuality(Filter[GopherQualityConfig]):
    """A filter by length, word shape, symbols, bullets, ellipses and stop words."""

    scoring: ClassVar[tuple[str, ...]] = ("stop_words", "bullets")

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Count words, lines and signs of each document."""
        from argosy.corpus.cleaning.kernels.filters.gopher_quality import shape

        words = batch.word_counts
        some = np.maximum(words, 1)
        lines, bullets, trailing, ellipses, hashes = shape(batch.points, batch.starts, self.config.bullets).T
        length = batch.by_document(batch.words.lengths) / some
        return batch, {
            "words": words.astype(np.float64),
            "mean_word_length": np.where(batch.han | (words == 0), np.nan, length),
            "hash_ratio": hashes / some,
            "ellipsis_ratio": ellipses / some,
            "bullet_line_share": bullets / np.maximum(lines, 1),
            "ellipsis_line_share": trailing / np.maximum(lines, 1),
            "alphabetic_word_share": batch.by_document(batch.words.lettered) / some,
            "stop_words": self._stop_words(batch)}

    def _stop_words(self, batch: Batch) -> Floats:
        """Count stop words of the document's language; NaN for short and for classical Chinese, which may have none."""
        from argosy.corpus.cleaning.kernels.filters.gopher_quality import distinct, hashes_of

        spaced = distinct(batch.words, hashes_of(self.config.stop_words)).astype(np.float64)
        if not batch.han.any():
            return spaced
        chinese = distinct(batch.words, hashes_of(_CHINESE_STOP_WORDS)).astype(np.float64)
        chinese[(batch.word_counts < _FEW) | _is_verse(batch)] = np.nan
        return np.where(batch.han, chinese, spaced)

    def rules(self) -> Sequence[Rule]:
        """Look at the length, words, signs, lines, then at stop words."""
        c = self.config
        return [
            Rule("words", "too short", least=c.min_words),
            Rule("words", "too long", most=c.max_words),
            Rule("mean_word_length", "mean word length", least=c.min_mean_word_length, most=c.max_mean_word_length),
            Rule("hash_ratio", "too many hashes", most=c.max_symbol_word_ratio),
            Rule("ellipsis_ratio", "too many ellipses", most=c.max_symbol_word_ratio),
            Rule("bullet_line_share", "almost only bullets", most=c.max_bullet_line_share),
            Rule("ellipsis_line_share", "too many lines end in an ellipsis", most=c.max_ellipsis_line_share),
            Rule("alphabetic_word_share", "too few alphabetic words", least=c.min_alphabetic_word_share),
            Rule("stop_words", "too few stop words", least=c.min_stop_words)]


def _is_verse(batch: Batch) -> Flags:
    """Tell whether short clauses stand in sentences, as in classical poems, which may do without any stop word.

    A list of keywords has clauses as short, but no sentence ends among them."""
    from argosy.corpus.cleaning.kernels.filters.gopher_quality import verse

    clauses, characters, ends = verse(batch.points, batch.starts).T
    found: Flags = (characters <= 8 * clauses) & (5 * ends >= clauses) & (clauses >= 4)
    return found
