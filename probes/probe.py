"""What a probe is given and what it returns."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import AfterValidator

from argosy.config import Config
from argosy.evaluation.language_model import LanguageModel
from argosy.statistics.intervals import Estimate


def _filled(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("it is empty; allowed: a list of one or more")
    return values


FILLED = AfterValidator(_filled)  # min_length would call a list empty whose entries are wrong


@dataclass(frozen=True)
class Scope:
    """Of one evaluation: the data step's directory (None when not given), whether prompts go through the chat
    template, the seed of what is drawn, and the most facts of a probe."""

    data: Path | None
    chat: bool
    seed: int
    limit: int | None


@dataclass
class Measured:
    """Measures by name, a row a case (`id` and `scores` at least), and what was left out by reason."""

    measures: dict[str, Estimate] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


class Probe(Config):
    """Base of the kinds.

    Attributes:
        name: the probe's in its suite: its metrics are probe/<suite>/<name>/<measure>.
        source: where its files are from, which the error says when they are absent.
        optional: where its files are absent, the probe is left out and named, and the suite goes on.
    """

    kind: ClassVar[str]
    name: str
    source: str = ""
    optional: bool = False

    @abstractmethod
    def measure(self, model: LanguageModel, scope: Scope) -> Measured:
        """Measure one model.

        Raises:
            InputError: the probe needs data that is absent.
        """
