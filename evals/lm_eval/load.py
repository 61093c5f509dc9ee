"""Tasks of lm-eval by their names, from the package and from folders of YAML, and the texts of their prompts."""

import logging
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from argosy.core.errors import InputError

Stamp = tuple[tuple[str, int], ...]


def load(name: str, include_path: str = "") -> Mapping[str, Any]:
    """Load `tasks` by name, and, where the name is a group's, `groups`. Their data is read, from Hugging Face where it
    is not on the machine.

    `include_path`: a folder with YAML of further tasks; "": lm-eval's own alone. Raises Exception: KeyError where
    there is none; else what its code or the reading of its data raises."""
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    loaded: Mapping[str, Any] = _manager(include_path, stamp(include_path)).load([name])
    for task in loaded["tasks"].values():
        if task.get_config("num_fewshot") is None:
            task.set_config("num_fewshot", 0)
        task.set_fewshot_seed(1234)  # lm-eval's default
    return loaded


def load_error(name: str, error: Exception) -> tuple[str, bool]:
    """Say why lm-eval could not load a task, and whether it has none of this name."""
    unknown = isinstance(error, KeyError) and name in str(error)
    first, *_ = str(error).strip().splitlines() or [""]
    return (str(error.args[0]) if unknown else f"{type(error).__name__}: {first}"), unknown


@lru_cache(maxsize=4)
def _manager(include_path: str, stamp: Stamp) -> Any:
    """Make one manager for all tasks: to list those of the package takes seconds."""
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=include_path or None, include_defaults=True)


def stamp(folder: str) -> Stamp:
    """List the YAML in a folder and the functions beside it with their times, so that a change is seen."""
    found = sorted(path for kind in ("*.y*ml", "*.py") for path in Path(folder).rglob(kind)) if folder else []
    return tuple((str(path), path.stat().st_mtime_ns) for path in found)


_MARK = "\x00"  # stands for the question


@cache
def description(task: str) -> str:
    """Read the beginning of the prompts of lm-eval's `task`: its `description`, and the text that its `doc_to_text` has
    before the question and the mark before that (TruthfulQA's `Q: `); InputError where there is no such task."""
    config = _config(task)
    text = str(config.get("doc_to_text", ""))
    if "{%" not in text:
        return str(config.get("description", ""))
    from jinja2 import Environment

    rendered = Environment(keep_trailing_newline=True).from_string(text).render(question=_MARK)
    head = rendered.partition(_MARK)[0]
    return str(config.get("description", "")) + head[: head.rfind("\n") + 1]


def _config(task: str) -> dict[str, Any]:
    spec = find_spec("lm_eval")
    folder = Path(spec.submodule_search_locations[0]) / "tasks" if spec and spec.submodule_search_locations else None
    found = sorted(folder.rglob(f"{task}.yaml")) if folder else []
    if not found:
        raise InputError(f"lm-eval has no task {task!r}; variant lm_eval takes its description_of from there")
    loaded = yaml.load(found[0].read_text(encoding="utf-8"), Loader=_Loader)
    return dict(loaded)


class _Loader(yaml.SafeLoader):
    """Reads task files without running their functions."""


_Loader.add_constructor("!function", lambda loader, node: node.value)
