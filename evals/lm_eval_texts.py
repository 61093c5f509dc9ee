"""Texts of lm-eval's own tasks, taken from the package that is installed."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from argosy.errors import InputError

_MARK = "\x00"  # stands for the question


@cache
def description(task: str) -> str:
    """What prompts of lm-eval's `task` begin with: its `description`, and what its `doc_to_text` has before its
    question and the mark before that (TruthfulQA's `Q: `).

    Raises:
        InputError: lm-eval has no task of that name.
    """
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
