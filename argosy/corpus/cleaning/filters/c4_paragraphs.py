"""mC4's rule of paragraphs (Xue et al. 2021, "mT5", section 3.1): a page has at least three long lines."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Rule, Scores


class C4ParagraphsConfig(FilterConfig):
    """The paper's threshold, of characters in every language."""

    name: str = "c4_paragraphs"
    skip_channels: tuple[str, ...] = ("code",)
    min_characters: Annotated[int, Field(ge=1)] = 200
    """Fewest characters of the third longest line."""


class C4Paragraphs(Filter[C4ParagraphsConfig]):
    """A filter of documents with fewer than three lines of running text. Score: `third_longest_line`, in characters."""

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Measure the third longest line of each document."""
        from argosy.corpus.cleaning.kernels.filters.c4_quality import third_longest

        return batch, {"third_longest_line": third_longest(batch.points, batch.starts).astype(np.float64)}

    def rules(self) -> Sequence[Rule]:
        """List the threshold."""
        return [Rule("third_longest_line", "too few paragraphs", least=self.config.min_characters)]
