"""The checkpoint that a training step left, for the step that goes on from it."""

from __future__ import annotations

import os
from pathlib import Path

from argosy.errors import InputError
from argosy.step_files import given_directory, read_outputs
from argosy.storage import read_json


def open_final(field: str, directory: str) -> tuple[Path, int]:
    """Directory of the `final` export of the training step in `directory`, and the tokens that it was trained on.

    Args:
        field: of the config, whose value `directory` is.

    Raises:
        InputError: there is no finished training step.
    """
    root = given_directory(field, directory, "training")
    outputs = read_outputs(root, field)
    if "final" not in outputs:
        raise InputError(f"{field}={directory} is not a training step: its outputs name no `final` checkpoint")
    # A relative path is kept relative: Trainer and TRL may write it down.
    path = Path(os.path.normpath(root / outputs["final"]))
    return path, int(read_json(path / "argosy.json")["tokens"])
