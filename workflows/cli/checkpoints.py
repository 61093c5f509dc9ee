"""Checkpoints by name, and what evaluation says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argosy.config_explain import nearest
from argosy.errors import InputError
from argosy.step_files import read_done
from workflows.cli.unfinished import unfinished
from workflows.last_run import directory_of, last_run
from workflows.lineage import step_directory


@dataclass(frozen=True)
class Evaluated:
    """A checkpoint and its metrics, over all suites."""

    label: str
    metrics: dict[str, float] = field(default_factory=dict)
    stderr: dict[str, float] = field(default_factory=dict)
    directories: list[Path] = field(default_factory=list)  # of its evaluations


def checkpoint_directory(store: Path, name: str) -> Path:
    """Directory of `name`: a stage (its last checkpoint's step), STAGE/EXPORT, a node, or a directory.

    Raises:
        InputError: there is no such thing; names the nearest.
    """
    stage, _, export = name.partition("/")
    try:
        return directory_of(store, name)
    except InputError:
        if not export or stage not in last_run(store).directories:
            raise
    directory = directory_of(store, stage)
    known = _exports(directory)
    path = known.get(export)
    if path is None and read_done(directory) is None:
        raise InputError(unfinished(store, stage, directory))
    if path is None:
        near = nearest(export, known) or list(known)
        raise InputError(f"{stage} has no checkpoint {export!r}; there are: {', '.join(near) or 'none'}")
    return directory / path


def evaluated(store: Path, name: str) -> Evaluated:
    """The metrics of the checkpoint `name` (of a stage: its last one), of all finished evaluations in its store.

    Raises:
        InputError: there is no such checkpoint, or it is not evaluated yet.
    """
    path = checkpoint_directory(store, name)
    step = step_directory(path) if path.exists() else path
    done = read_done(step)
    if done is None:
        raise InputError(unfinished(store, name, step))
    if not done["outputs"].get("exports"):
        raise InputError(f"{name} ({step}) makes no checkpoints; name a training stage, such as pretrain or sft")
    export = _export_name(done["outputs"], step, path)
    found = Evaluated(name)
    for directory, outputs in _evaluations(step.parent, done["made_from"]["digest"]):
        if outputs["checkpoint"]["name"] == export:
            found.metrics.update(outputs["metrics"])
            found.stderr.update(outputs["stderr"])
            found.directories.append(directory)
    if not found.metrics:
        raise InputError(f"{name} ({step}, checkpoint {export}) is not evaluated yet; 'argosy status' shows how far "
                         "the last run is, and 'argosy run' with its options goes on")
    return found


def _exports(directory: Path) -> dict[str, str]:
    done = read_done(directory)
    exports = {entry["name"]: entry["path"] for entry in done["outputs"].get("exports", [])} if done else {}
    return exports | ({"final": done["outputs"]["final"]} if done and "final" in done["outputs"] else {})


def _export_name(outputs: dict[str, Any], step: Path, path: Path) -> str:
    """Name of the export that `path` is, or of the final one where `path` is the step's directory."""
    inner = (
        outputs["final"] if path.absolute() == step.absolute() else str(path.absolute().relative_to(step.absolute()))
    )
    for entry in outputs["exports"]:
        if entry["path"] == inner:
            return str(entry["name"])
    raise InputError(
        f"{path} is not a checkpoint of {step}; there are: " + ", ".join(entry["path"] for entry in outputs["exports"])
    )


def _evaluations(store: Path, digest: str) -> list[tuple[Path, dict[str, Any]]]:
    """Directories and outputs of the evaluations of the step with this digest."""
    found = []
    for path in sorted(store.glob("evaluate-*")):
        done = read_done(path)
        if done and done["made_from"]["upstream"].get("checkpoint") == [digest]:
            found.append((path, done["outputs"]))
    return found
