"""Models that filters ask: where a config names them, and where a step finds them.

A path is of one machine and no part of a result, so that a step's filters have numbers in place of paths: of its own
list of files from outside, whose bytes count. A name of the hub with its commit stays."""

import re
from collections.abc import Sequence
from os.path import expanduser
from pathlib import Path
from typing import TypeVar

from argosy.corpus.cleaning.filter import FilterConfig

TRAINED = ""  # as `model`: the one that the pipeline trains


class ModelFilterConfig(FilterConfig):
    """Base of the config of a filter that asks a model."""

    model: str = ""
    """Directory of the model."""


F = TypeVar("F", bound=FilterConfig)
_HUB = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}")


def is_hub(model: str) -> bool:
    """Tell whether this is `org/name@commit` of the Hugging Face hub."""
    return _HUB.fullmatch(model) is not None


def number_models(filters: Sequence[F]) -> tuple[tuple[F, ...], tuple[str, ...]]:
    """Return the filters with a number in place of each path, and the paths by number."""
    paths: list[str] = []
    numbered: list[F] = []
    for one in filters:
        if isinstance(one, ModelFilterConfig) and one.model and not is_hub(one.model) and not one.model.isdecimal():
            path = expanduser(one.model)
            paths += [] if path in paths else [path]
            one = one.model_copy(update={"model": str(paths.index(path))})
        numbered.append(one)
    return tuple(numbered), tuple(paths)


def find_models(filters: Sequence[FilterConfig], paths: Sequence[str], trained: str = "") -> dict[str, Path]:
    """Return the directories of the models by what the filters call them; names of the hub are not among them."""
    found = {TRAINED: Path(trained)} if trained else {}
    for one in filters:
        if isinstance(one, ModelFilterConfig) and one.model and not is_hub(one.model):
            found[one.model] = Path(paths[int(one.model)] if one.model.isdecimal() else expanduser(one.model))
    return found
