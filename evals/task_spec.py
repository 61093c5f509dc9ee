"""A task of a suite: which files its items are read from."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from argosy.config import Config
from evals.items import Item, Items, read_items


class TaskSpec(Config):
    """`benchmarks.tasks.<name>` of a suite: a list of files, or a mapping of these fields.

    `files`: beside the suite, below `data` or absolute. `shots`: files of the items that few-shot examples are from.
    """

    files: tuple[str, ...] = Field(min_length=1)
    shots: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        """One file or a list of files is a task of these files."""
        if isinstance(value, str):
            value = [value]
        return {"files": value} if isinstance(value, list | tuple) else value

    def read(self, data: Path, limit: int | None = None) -> Items:
        """Items of all files, at most `limit` of each; one that is empty is passed where another is not, as of a
        benchmark in one language.

        Raises:
            InputError: a file is absent, cannot be read, or has no usable item.
        """
        paths = [data / file for file in self.files]
        filled = [path for path in paths if not path.is_file() or path.stat().st_size]
        return merged([_read(path, limit) for path in filled or paths])

    def pool(self, data: Path) -> list[Item]:
        """Items that few-shot examples are drawn from; none where the task names no `shots`."""
        return merged([_read(data / file, None) for file in self.shots]).items


def merged(parts: list[Items]) -> Items:
    """All of them as one."""
    found = Items()
    for part in parts:
        found.items += part.items
        found.left_out += part.left_out
    return found


@lru_cache(maxsize=16)
def _read_again_when_changed(path: Path, limit: int | None, changed: int) -> Items:
    return read_items(path, limit)


def _read(path: Path, limit: int | None) -> Items:
    """Items of a file, read once for all checkpoints of a process."""
    return _read_again_when_changed(path, limit, path.stat().st_mtime_ns if path.is_file() else 0)
