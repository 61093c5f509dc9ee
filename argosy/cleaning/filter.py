"""What a filter is.

A new filter is one new file in `argosy/cleaning/filters/`:

    class ShortConfig(FilterConfig):
        name: str = "short"
        min_characters: int = 20

    class Short(Filter[ShortConfig]):
        config_class = ShortConfig

        def __call__(self, document: Document) -> Document | Drop:
            return Drop("too short") if len(document.text) < self.config.min_characters else document
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from argosy.config import Config
from argosy.documents.record import Document


class FilterConfig(Config):
    """Base of a filter's config: `name` is the filter's, documents of `skip_channels` pass it untouched."""

    name: str
    skip_channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Drop:
    """The document goes; `reason` is short and without the document's data, as it is counted."""

    reason: str


@dataclass(frozen=True)
class Resources:
    """What filters may need beside their thresholds.

    Attributes:
        sample: some documents of the corpus as it came, for filters that learn what is normal in it.
        benchmark: items {"question", "choices", ...} that must not be trained on.
        words: further words for the word lists.
    """

    sample: Sequence[Document] = ()
    benchmark: Sequence[Mapping[str, Any]] = ()
    words: Sequence[str] = ()


C = TypeVar("C", bound=FilterConfig)


class Filter(ABC, Generic[C]):
    """A decision about one document at a time, in the corpus's order; may keep state (deduplication)."""

    config_class: ClassVar[type[FilterConfig]]

    def __init__(self, config: C, resources: Resources) -> None:
        self.config = config
        self.resources = resources
        self.counts: Counter[str] = Counter()  # what a filter wants to be in the report, by kind

    @abstractmethod
    def __call__(self, document: Document) -> Document | Drop:
        """The document, as it was or changed, or why it goes."""
