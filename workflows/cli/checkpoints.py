"""Checkpoints by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from argosy.config_explain import likely
from argosy.errors import InputError
from argosy.step_files import read_done
from workflows.cli.unfinished import unfinished
from workflows.last_run import directory_of, last_run


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
        raise InputError(f"{stage} has no checkpoint {export!r}; {likely(export, known) or 'it has none'}")
    return directory / path


def _exports(directory: Path) -> dict[str, str]:
    done = read_done(directory)
    exports = {entry["name"]: entry["path"] for entry in done["outputs"].get("exports", [])} if done else {}
    return exports | ({"final": done["outputs"]["final"]} if done and "final" in done["outputs"] else {})


def export_name(outputs: dict[str, Any], step: Path, path: Path) -> str:
    """Name of the export that `path` is, or of the final one where `path` is the step's directory.

    Raises:
        InputError: `path` is neither; names the exports.
    """
    inner = (
        outputs["final"] if path.absolute() == step.absolute() else str(path.absolute().relative_to(step.absolute()))
    )
    for entry in outputs["exports"]:
        if entry["path"] == inner:
            return str(entry["name"])
    raise InputError(
        f"{path} is not a checkpoint of {step}; there are: " + ", ".join(entry["path"] for entry in outputs["exports"])
    )
