"""Tasks of lm-eval by their names, from the package and from folders of YAML."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

Stamp = tuple[tuple[str, int], ...]


def load(name: str, include_path: str = "") -> Mapping[str, Any]:
    """What lm-eval has of this name: `tasks` by name, and, where it is a group, `groups`. Its data is read, from
    Hugging Face where it is not on the machine.

    Args:
        include_path: a folder with YAML of further tasks; "": lm-eval's own alone.

    Raises:
        Exception: KeyError where there is none; else what its code or the reading of its data raises.
    """
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    loaded: Mapping[str, Any] = _manager(include_path, stamp(include_path)).load([name])
    for task in loaded["tasks"].values():
        if task.get_config("num_fewshot") is None:
            task.set_config("num_fewshot", 0)
        task.set_fewshot_seed(1234)  # lm-eval's default
    return loaded


def why_not(name: str, error: Exception) -> tuple[str, bool]:
    """Why lm-eval could not load a task, and whether it is because there is none of this name."""
    unknown = isinstance(error, KeyError) and name in str(error)
    said = str(error).strip().splitlines() or [""]
    return (str(error.args[0]) if unknown else f"{type(error).__name__}: {said[0]}"), unknown


@lru_cache(maxsize=4)
def _manager(include_path: str, stamp: Stamp) -> Any:
    """One for all tasks: to list those of the package takes seconds."""
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=include_path or None, include_defaults=True)


def stamp(folder: str) -> Stamp:
    """Of the YAML in a folder and the functions beside it, so that a change is seen."""
    found = sorted(path for kind in ("*.y*ml", "*.py") for path in Path(folder).rglob(kind)) if folder else []
    return tuple((str(path), path.stat().st_mtime_ns) for path in found)
