"""Paths in a suite: of what lies beside it where there is such a file, else as they are.

What is malformed passes through: the section's own config says what is wrong with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Benchmarks = dict[str, Any] | None
Probes = list[dict[str, Any]] | None


def beside(folder: Path, benchmarks: Benchmarks, probes: Probes) -> tuple[Benchmarks, Probes]:
    """Both sections with absolute paths for what lies in `folder`, the suite's."""

    def found(path: str) -> str:
        return str(folder / path) if (folder / path).exists() else path

    if benchmarks is not None:
        benchmarks = {**benchmarks}
        if tasks := _tasks(benchmarks):
            named = {task: [found(file) for file in files] for task, files in tasks.items()}
            benchmarks["tasks"] = {**benchmarks["tasks"], **named}
        if _is_path(benchmarks.get("include_path")):
            benchmarks["include_path"] = found(benchmarks["include_path"])
    if probes is not None:
        probes = [{**probe, "file": found(probe["file"])} if _is_path(probe.get("file")) else probe for probe in probes]
    return benchmarks, probes


def files_of(benchmarks: Benchmarks, probes: Probes) -> tuple[str, ...]:
    """Absolute paths of the files and directories that the sections name, but those below the data step's directory."""
    section = benchmarks or {}
    items = [file for files in _tasks(section).values() for file in files if os.path.isabs(file)]
    others = [section.get("include_path"), *(probe.get("file") for probe in probes or ())]
    return tuple(dict.fromkeys([*items, *(os.path.abspath(str(path)) for path in others if _is_path(path))]))


def _tasks(section: Mapping[str, Any]) -> dict[str, list[str]]:
    tasks = section.get("tasks")
    named = tasks.items() if isinstance(tasks, dict) else ()
    return {task: files for task, files in named if isinstance(files, list) and all(map(_is_path, files))}


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value != ""
