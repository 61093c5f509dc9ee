"""Tasks that a suite takes from another one: `core` asks a sample of what `mmlu` and others define.

    benchmarks:
      tasks:
        mmlu: {use: mmlu, limit: 200}     # task `mmlu` of suite mmlu (beside this one, or shipped), with another limit
        mine: {use: other.yaml, task: theirs}
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.errors import InputError
from argosy.yaml_file import read_yaml

SHIPPED = Path(__file__).resolve().parents[2] / "evals/suites"


def with_used(benchmarks: dict[str, Any] | None, folder: Path) -> dict[str, Any] | None:
    """The section with each `use` replaced by what it names; `defined_in` says in which file that is. A section that
    is malformed passes through: its own config says what is wrong with it.

    Raises:
        InputError: there is no such suite or no such task in it.
    """
    tasks = (benchmarks or {}).get("tasks")
    if not isinstance(tasks, dict):
        return benchmarks
    return {**(benchmarks or {}), "tasks": {name: _task(name, spec, folder) for name, spec in tasks.items()}}


def _task(name: str, spec: Any, folder: Path) -> Any:
    if not isinstance(spec, Mapping) or "use" not in spec:
        return spec
    path = _find(str(spec["use"]), folder, name)
    section = (read_yaml(path).data or {}).get("benchmarks", {})
    tasks = section.get("tasks", {})
    wanted = str(spec.get("task", name))
    if wanted not in tasks:
        raise InputError(f"task {name}: suite {path.stem} has no task {wanted!r}; it has {', '.join(tasks) or 'none'}")
    theirs = _task(wanted, tasks[wanted], path.parent)
    if not isinstance(theirs, Mapping):
        theirs = {"files": theirs}
    if "lm_eval" in theirs and isinstance(include := section.get("include_path"), str):
        beside = path.parent / include
        theirs = {"include_path": str(beside) if beside.exists() else include, **theirs}
    own = {key: value for key, value in spec.items() if key not in ("use", "task")}
    return {"defined_in": str(path), **theirs, **own}


def _find(use: str, folder: Path, task: str) -> Path:
    names = [use] if use.endswith((".yaml", ".yml")) else [f"{use}.yaml"]
    for path in (place / name for place in (folder, SHIPPED) for name in names):
        if path.is_file():
            return Path(os.path.abspath(path))
    known = sorted({path.stem for place in (folder, SHIPPED) for path in place.glob("*.yaml")})
    near = difflib.get_close_matches(use, known, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(f"task {task}: use is {use!r}{hint} (there are: {', '.join(known)}; or a YAML beside the suite)")
