"""The contract of a filter: its config, its decision about one document, what it may need beside.

A new filter is one new file in `argosy/cleaning/filters/`: CONTRIBUTING.md has one."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources as data_files
from typing import Any, ClassVar, Generic, TypeVar

from argosy.config.schema import Config
from argosy.data.schemas import Document


class FilterConfig(Config):
    """Base of a filter's config."""

    name: str
    """Name of the filter."""
    skip_channels: tuple[str, ...] = ()
    """Channels whose documents pass untouched."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The decision that a document goes; `reason` is short and without the document's data, as it is counted."""

    reason: str


@dataclass(frozen=True)
class Resources:
    """Data that filters may need beside their thresholds."""

    sample: Sequence[Document] = ()
    """Some documents of the corpus as it came, for filters that learn what is normal in it."""
    benchmark: Sequence[Mapping[str, Any]] = ()
    """Items {"question", "choices", ...} that must not be trained on."""
    words: Sequence[str] = ()
    """Further words for the word lists."""


C = TypeVar("C", bound=FilterConfig)


class Filter(ABC, Generic[C]):
    """A decision about one document at a time, in the corpus's order; may keep state (deduplication)."""

    config_class: ClassVar[type[FilterConfig]]
    name: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        """Name the filter as its config does."""
        super().__init_subclass__()
        cls.name = cls.config_class.model_fields["name"].default

    def __init__(self, config: C, resources: Resources) -> None:
        self.config = config
        self.resources = resources
        self.counts: Counter[str] = Counter()  # what a filter wants to be in the report, by kind

    @abstractmethod
    def __call__(self, document: Document) -> Document | Drop:
        """Return the document, as it was or changed, or drop it with a reason."""


def read_words(name: str) -> list[str]:
    """Read the list `name` in `words/`: an entry a line, `#` begins a comment line."""
    lines = data_files.files("argosy.cleaning").joinpath("words", name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
