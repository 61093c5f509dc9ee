"""Paths in a suite: of what lies beside it where there is such a file, else as they are.

What is malformed passes through: the section's own config says what is wrong with it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Benchmarks = dict[str, Any] | None
Probes = list[dict[str, Any]] | None
Find = Callable[[str], str]

ROOT = "ARGOSY_BENCHMARKS"  # the folder of published benchmarks, or `huggingface`
_LISTS = ("files", "shots", "include_path")  # fields of a task that name files
SAVED = ("dataset_dict.json", "state.json")  # what a directory made by `save_to_disk` has one of


def beside(folder: Path, benchmarks: Benchmarks, probes: Probes) -> tuple[Benchmarks, Probes]:
    """Both sections with absolute paths for what lies in `folder`, the suite's."""

    def found(path: str) -> str:
        return str(folder / path) if glob.glob(str(folder / path), recursive=True) else path

    def dataset(name: str) -> str:
        return str(folder / name) if is_saved(folder / name) else name

    if benchmarks is not None:
        benchmarks = {**benchmarks}
        if isinstance(tasks := benchmarks.get("tasks"), dict):
            benchmarks["tasks"] = {task: _each_path(spec, found, dataset) for task, spec in tasks.items()}
        if _is_path(benchmarks.get("include_path")):
            benchmarks["include_path"] = found(benchmarks["include_path"])
    if probes is not None:
        probes = [{**probe, "file": found(probe["file"])} if _is_path(probe.get("file")) else probe for probe in probes]
    return benchmarks, probes


def files_of(benchmarks: Benchmarks, probes: Probes) -> tuple[str, ...]:
    """Absolute paths of the files and directories that the sections name, but those below the data step's directory:
    absolute ones, those below ARGOSY_BENCHMARKS, the suites that tasks are taken from,
    and datasets that are directories."""
    section = benchmarks or {}
    tasks = section.get("tasks")
    named = [path for spec in (tasks.values() if isinstance(tasks, dict) else ()) for path in _paths(spec)]
    items = [file for path in named for file in _expanded(path)]
    probed = [file for probe in probes or () if _is_path(probe.get("file")) for file in _expanded(str(probe["file"]))]
    others = [os.path.abspath(spec["hf"]) for spec in (tasks.values() if isinstance(tasks, dict) else ())
              if isinstance(spec, Mapping) and _is_path(spec.get("hf")) and os.path.isdir(spec["hf"])]  # fmt: skip
    others += [os.path.abspath(str(path)) for path in [section.get("include_path")] if _is_path(path)]
    return tuple(dict.fromkeys([*items, *others, *probed]))


def texts_beside(folder: Path, heldout: dict[str, Any] | None) -> dict[str, Any] | None:
    """The held-out section with absolute paths for the `texts` that lie in `folder`, the suite's."""
    if heldout is None or not (texts := heldout.get("texts")):
        return heldout

    def found(path: Any) -> Any:
        return str(folder / path) if _is_path(path) and (folder / path).exists() else path

    each = {name: found(path) for name, path in texts.items()} if isinstance(texts, dict) else found(texts)
    return {**heldout, "texts": each}


def texts_of(heldout: dict[str, Any] | None) -> list[str]:
    """Absolute paths of the held-out section's `texts`, but those below the data step's directory."""
    texts = (heldout or {}).get("texts")
    paths = texts.values() if isinstance(texts, dict) else [texts]
    return [file for path in paths if _is_path(path) for file in _expanded(str(path))]


def _expanded(path: str) -> list[str]:
    """Files of an absolute path or pattern, or of one below ARGOSY_BENCHMARKS."""
    if not os.path.isabs(path):
        root = os.environ.get(ROOT, "")
        return sorted(glob.glob(os.path.join(os.path.expanduser(root), path), recursive=True)) if root else []
    return sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else [path]


def is_saved(path: Path) -> bool:
    """Whether it is a dataset that was saved by `save_to_disk`."""
    return any((path / file).is_file() for file in SAVED)


def _each_path(spec: Any, found: Find, dataset: Find) -> Any:
    if isinstance(spec, Mapping):
        where = {**dict.fromkeys(_LISTS, found), "hf": dataset}
        return {key: _each_path(value, where[key], dataset) if key in where else value for key, value in spec.items()}
    if _is_path(spec):
        return found(spec)
    return [found(path) for path in spec] if isinstance(spec, list) and all(map(_is_path, spec)) else spec


def _paths(spec: Any) -> Iterator[str]:
    """Paths that a task names."""
    if isinstance(spec, Mapping):
        for name in (*_LISTS, "defined_in"):
            yield from _paths(spec.get(name))
    elif _is_path(spec):
        yield spec
    elif isinstance(spec, list) and all(map(_is_path, spec)):
        yield from spec


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value != ""
