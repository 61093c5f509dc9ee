"""The contract of a filter: its config, its scores of a batch of documents, and the rules that decide by them.

Scores are kept apart from decisions, so that a changed threshold needs no second look at the texts. A new filter is one
new file in `argosy/corpus/cleaning/filters/`: CONTRIBUTING.md has one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources as data_files
from math import inf
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.lazy import Array, Floats
from argosy.core.plugins import config_of
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.data.schemas import Document

Share = Annotated[float, Field(ge=0, le=1)]


class FilterConfig(Config):
    """Base of a filter's config."""

    name: str
    """Name of the filter."""
    skip_channels: tuple[str, ...] = ()
    """Channels whose documents pass untouched."""


class Rule(NamedTuple):
    """A threshold: a document goes whose score is below `least` or above `most`; NaN passes. With `also`, it goes where
    it breaks that one too. `reason` is short and without the document's data, as it is counted."""

    score: str
    reason: str
    least: float = -inf
    most: float = inf
    also: "Rule | None" = None


class Measurer(Protocol):
    """Models of torch, by what a filter's `model` says (`argosy.model.infer.documents`)."""

    def losses(self, model: str, texts: Sequence[str]) -> tuple[Floats, Floats]:
        """Return nats and tokens of each text under a language model, (texts,) each."""

    def labels(self, model: str, texts: Sequence[str], max_tokens: int) -> Floats:
        """Return the score of each text under a model for sequence classification, (texts,)."""


@dataclass(frozen=True)
class Resources:
    """Data that filters may need beside their thresholds."""

    sample: Sequence[Document] = ()
    """Some documents of the corpus as it came, for filters that learn what is normal in it."""
    benchmark: Sequence[Mapping[str, Any]] = ()
    """Items {"question", "choices", ...} that must not be trained on."""
    words: Sequence[str] = ()
    """Further words for the word lists."""
    models: Mapping[str, Path] = field(default_factory=dict)
    """Directories of models, by what a filter's `model` says (`classifier.model_paths.find_models`)."""
    torch: Measurer | None = None
    """Measurer of the filters that need torch."""

    def measurer(self) -> Measurer:
        """Return the models that need torch. Raises InputError: the step has none."""
        if self.torch is None:
            raise InputError("a filter asks a model of torch, which the step measure scores documents with, and score "
                             "does not: leave it out of score.filters")
        return self.torch


Scores = Mapping[str, Floats]  # by name, one value a document; NaN: it does not apply
Keys = Mapping[str, Array]  # by name; the first axis is the documents'
C = TypeVar("C", bound=FilterConfig)


class Filter(ABC, Generic[C]):
    """Scores of documents, repairs of their texts, and rules over the scores; one file each."""

    config_class: ClassVar[type[FilterConfig]]
    name: ClassVar[str] = ""
    scoring: ClassVar[tuple[str, ...]] = ()
    """Fields of the config that scores and repairs depend on; all others change decisions alone."""
    counted: ClassVar[tuple[str, ...]] = ()
    """Scores that are counts of what it found, by kind, and whose sums the report shows."""
    measured: ClassVar[bool] = False
    """Whether it asks a model of torch: the step `measure` scores then, on documents as `score` has repaired them."""
    repairs: ClassVar[bool] = False
    """Whether it may change a text; then channels that it skips are not scored by it either."""

    def __init_subclass__(cls) -> None:
        """Name the filter as its config does."""
        super().__init_subclass__()
        cls.config_class = config_of(cls) or cls.config_class
        cls.name = cls.config_class.model_fields["name"].default

    def __init__(self, config: C, resources: Resources) -> None:
        self.config = config
        self.resources = resources
        self.label = self.name
        """Name among the filters of a config: one that comes again has a number (`scoring.labels`)."""

    @abstractmethod
    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Return the batch, the same or repaired, and scores of its documents."""

    def keys(self, batch: Batch) -> Keys:
        """Return what copies of documents are recognised by, of all documents; most filters have none."""
        return {}

    def rules(self) -> Sequence[Rule]:
        """List the thresholds, which the config alone decides; the first one that a document breaks is why it goes."""
        return ()

    @classmethod
    def scoring_config(cls, config: C) -> C:
        """Return `config` with the defaults of all that changes decisions alone: what scores are made from."""
        kept = ("name", *cls.scoring, *(("skip_channels",) if cls.repairs else ()))
        return type(config).model_validate({name: getattr(config, name) for name in kept
                                            if name in config.model_fields_set})


def read_words(name: str) -> list[str]:
    """Read the list `name` in `words/`: an entry a line, `#` begins a comment line."""
    lines = data_files.files("argosy.corpus.cleaning").joinpath("words", name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@cache
def read_weights(name: str) -> dict[str, int]:
    """Read the list `name` in `words/` whose entries are a weight and a word."""
    return {word: int(weight) for weight, word in (line.split(" ", 1) for line in read_words(name))}
