"""C4's rules (Raffel et al. 2020, "Exploring the Limits of Transfer Learning", section 2.2), lines first."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, ClassVar

from pydantic import Field

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Rule, Scores

_DUMMY = "lorem ipsum"
_LATIN_ENDS, _CHINESE_ENDS = ".?!\"'", "。！？”’」』"
_PHRASES = ("javascript", "terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies",
            "use cookies")


class C4QualityConfig(FilterConfig):
    """The paper's thresholds, and the ends of Chinese sentences beside the English ones.

    C4 left the words of its list of bad words to this filter too: here `toxicity` looks at them."""

    name: str = "c4_quality"
    skip_channels: tuple[str, ...] = ("code",)
    line_ends: str = _LATIN_ENDS + _CHINESE_ENDS
    """Characters of which a line must end in one, though not in three dots; the paper's are the first five. "": a line
    may end in anything, as FineWeb has it."""
    min_words_per_line: Annotated[int, Field(ge=0)] = 3
    """Fewest words of a line, between spaces; in Chinese, two characters are a word."""
    max_word_length: Annotated[int, Field(ge=1)] = 1000
    """Most characters between spaces in a line."""
    phrases: tuple[Annotated[str, Field(min_length=1)], ...] = _PHRASES
    """Phrases of a site's own: a line that holds one goes; without case."""
    min_sentences: Annotated[int, Field(ge=0)] = 5
    """Fewest sentences in the lines that stay."""
    drop_curly_brackets: bool = True
    """Whether a document goes whose lines that stay have a curly bracket, as programs do."""


class C4Quality(Filter[C4QualityConfig]):
    """A filter of lines that are no sentences, and of documents with few sentences.

    Scores: `sentences` of the lines that stay; `dummy_lines` with "lorem ipsum" and `bracket_lines` with a curly
    bracket; `kept_line_share`, of all lines, which decides nothing."""

    scoring: ClassVar[tuple[str, ...]] = ("line_ends", "min_words_per_line", "max_word_length", "phrases")
    repairs: ClassVar[bool] = True

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Keep the lines that follow the rules, and count."""
        from argosy.corpus.cleaning.kernels.filters.c4_quality import kept_lines

        c = self.config
        found = kept_lines(batch.points, batch.starts, batch.han, c.line_ends,
                           (_DUMMY, *(phrase.lower() for phrase in c.phrases)),
                           (c.min_words_per_line, c.max_word_length))
        text = found.points.tobytes().decode("utf-32-le", "surrogatepass")
        bounds = found.starts.tolist()
        lines, kept, sentences, dummy, brackets = found.counts.T
        return batch.with_texts([text[a:b] for a, b in pairwise(bounds)]), {
            "sentences": sentences, "dummy_lines": dummy, "bracket_lines": brackets,
            "kept_line_share": kept / np.maximum(lines, 1)}

    def rules(self) -> Sequence[Rule]:
        """Look at dummy text, brackets, then sentences."""
        brackets = [Rule("bracket_lines", "curly bracket", most=0)] if self.config.drop_curly_brackets else []
        return [Rule("dummy_lines", "lorem ipsum", most=0), *brackets,
                Rule("sentences", "too few sentences", least=self.config.min_sentences)]
