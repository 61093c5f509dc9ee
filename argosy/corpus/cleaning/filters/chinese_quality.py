"""Rules for Chinese web text: share of Han characters, sentences, script, and spam by weighted words.

ChineseWebText (Chen et al. 2023, section 3.2) drops text of less than 30 % Chinese, of short lines, and of more than
half a sensitive word a line; WanJuan (He et al. 2023), CCI3.0 (Wang et al. 2024) and Skywork's SkyPile (Wei et al.
2023) drop advertisement, gambling and pornography, by word lists and classifiers. The lists are this project's own."""

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Annotated, ClassVar

from pydantic import Field

from argosy.core.lazy import Bytes, Floats, Integers, np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Rule, Scores, Share, read_weights, read_words

_FEW_LINES = 5
_TELLING = 3  # weight of the words that stand in nothing but spam
SPAM = ("advertisement", "gambling", "adult")


class ChineseQualityConfig(FilterConfig):
    """Thresholds; other documents than Chinese pass, and the rules of lines look at texts of five lines and more.

    One departure from ChineseWebText, whose corpus was web pages: it wants 0.3 of the characters Han, but a third of
    Chinese about programs is code."""

    name: str = "chinese_quality"
    skip_channels: tuple[str, ...] = ("code",)
    min_han_share: Share = 0.1
    """Smallest share of Han characters among the visible ones."""
    min_mean_line: Annotated[float, Field(ge=0)] = 10
    """Smallest mean length of a line, in visible characters; classical poems have lines of 5 and 7."""
    min_ended_line_share: Share = 0.05
    """Smallest share of lines that end a sentence, as those of a list do not."""
    max_sentence: Annotated[float, Field(gt=0)] = 400
    """Most Han characters per end of a sentence."""
    min_traditional_share: Share = 0.0
    """Smallest share of traditional characters, of those that the scripts write differently."""
    max_traditional_share: Share = 1.0
    """Largest share of these; 0.5 keeps texts in the simplified script."""
    max_spam: Annotated[float, Field(ge=0)] = 3.0
    """Weight of the words of one kind of spam per 100 visible characters."""
    max_spam_words: Annotated[int, Field(ge=0)] = 1
    """Different words of the greatest weight that may always stand, as in news about spam; both must be exceeded."""


class ChineseQuality(Filter[ChineseQualityConfig]):
    """A filter of Chinese documents.

    Scores: `han_share`, `mean_line`, `ended_line_share`, `sentence`, `traditional_share`, and for each kind of spam its
    weight per 100 characters (`gambling`) and the number of different words of weight 3 (`gambling_words`)."""

    scoring: ClassVar[tuple[str, ...]] = ()

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Count characters, lines and words of spam."""
        from argosy.corpus.cleaning.kernels.filters.chinese_quality import chinese_counts

        counts = chinese_counts(batch.points, batch.starts, _scripts()).T.astype(np.float64)
        visible, han, ends, lines, ended, traditional, simplified = counts
        some, either = np.maximum(visible, 1), traditional + simplified
        scores = {
            "han_share": han / some,
            "mean_line": np.where(lines < _FEW_LINES, np.nan, visible / np.maximum(lines, 1)),
            "ended_line_share": np.where(lines < _FEW_LINES, np.nan, ended / np.maximum(lines, 1)),
            "sentence": han / np.maximum(ends, 1),
            "traditional_share": np.where(either > 0, traditional / np.maximum(either, 1), np.nan),
        } | self._spam(batch, some)
        return batch, {name: np.where(batch.han, values, np.nan) for name, values in scores.items()}

    @cached_property
    def _listed(self) -> tuple[tuple[str, ...], Integers, Floats]:
        """Return the words of all lists, and of each word its list and its weight."""
        words, kinds, weights = zip(*((word, kind, weight) for kind, name in enumerate(SPAM)
                                      for word, weight in read_weights(f"{name}.txt").items()), strict=True)
        return words, np.array(kinds), np.array(weights, np.float64)

    def _spam(self, batch: Batch, visible: Floats) -> dict[str, Floats]:
        words, kinds, weights = self._listed
        documents, _, numbers = batch.find(words)
        different = np.unique(documents * len(kinds) + numbers)
        scores: dict[str, Floats] = {}
        for kind, name in enumerate(SPAM):
            of = kinds[numbers] == kind
            weight = np.bincount(documents[of], weights[numbers[of]], minlength=len(batch))
            scores[name] = 100 * weight / visible
            word = different % len(kinds)
            once = different[(kinds[word] == kind) & (weights[word] == _TELLING)] // len(kinds)
            scores[f"{name}_words"] = np.bincount(once, minlength=len(batch)).astype(np.float64)
        return scores

    def rules(self) -> Sequence[Rule]:
        """Look at spam, characters, lines, sentences, then at the script."""
        c = self.config
        several = {name: Rule(f"{name}_words", name, most=c.max_spam_words) for name in SPAM}
        return [
            *(Rule(name, f"{name} spam", most=c.max_spam, also=several[name]) for name in reversed(SPAM)),
            Rule("han_share", "few Han characters", least=c.min_han_share),
            Rule("mean_line", "short lines", least=c.min_mean_line,
                 also=Rule("ended_line_share", "short lines", least=c.min_ended_line_share)),
            Rule("ended_line_share", "few lines end a sentence", least=c.min_ended_line_share),
            Rule("sentence", "few sentence ends", most=c.max_sentence),
            Rule("traditional_share", "script", least=c.min_traditional_share, most=c.max_traditional_share)]


@cache
def _scripts() -> Bytes:
    from argosy.corpus.cleaning.kernels.filters.chinese_quality import SIMPLIFIED, TRADITIONAL

    table = np.zeros(0x110000, np.uint8)
    pairs = [pair for line in read_words("traditional.txt") for pair in line.split()]
    old, new = ({pair[at] for pair in pairs} for at in (0, 1))
    table[list(map(ord, old - new))] = TRADITIONAL
    table[list(map(ord, new - old))] = SIMPLIFIED
    return table
