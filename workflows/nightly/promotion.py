"""Which checkpoint a model line's alias names: moved on purpose, with the evidence, and back."""

from __future__ import annotations

import datetime
import getpass
from pathlib import Path

from argosy.errors import InputError, StepError
from argosy.step_files import RUN, read_done
from argosy.storage import read_record
from argosy.tracking.registry import Registry, Version
from argosy.tracking.shipper import Unavailable
from workflows.nightly.found import read_trained
from workflows.nightly.reference import Chosen

ALIAS = "reference"
NOT_PROMOTED = ("twin",)  # has seen the test on purpose


def final_checkpoint(comparison: Path) -> Chosen:
    """The last checkpoint of the lifecycle whose compare step's directory this is: RLHF's, else DPO's, else SFT's.

    Raises:
        InputError: it is not done, or has none.
    """
    done = read_done(comparison)
    if done is None:
        raise InputError(f"{comparison} is not the directory of a finished comparison: promotion needs one")
    settings = read_record(comparison / RUN).get("config", {})
    for directory in reversed(settings.get("checkpoints", [])):
        trained = read_trained(Path(directory), [])
        if trained is not None and trained.stage not in NOT_PROMOTED:
            return Chosen(trained, trained.final)
    raise InputError(f"{comparison} compares no checkpoint that can be promoted")


def promote(registry: Registry, chosen: Chosen, *, alias: str = ALIAS, model: str = "", by: str = "",
            comparison: str = "", workflow: str = "") -> tuple[Version | None, Version]:
    """Let the alias name `chosen`; returns what it named before, and what now. Doing it again changes nothing.

    The new version carries who, when and on what grounds (tags `argosy.promoted.*`).

    Raises:
        InputError: MLflow does not know the checkpoint.
        StepError: it does not answer.
    """
    line = chosen.trained.line
    evidence = {"by": by or _user(), "alias": alias, "comparison": comparison, "workflow": workflow,
                "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}  # fmt: skip
    try:
        before = registry.at(model or line, alias)
        if before is not None and before.checkpoint == chosen.key:
            return before, before
        tags = {f"argosy.promoted.{name}": value for name, value in evidence.items() if value}
        return before, registry.move(model or line, alias, line, chosen.key, tags)
    except Unavailable as error:
        raise StepError(f"MLflow does not answer: {error}; nothing was moved, run it again") from None


def undo(registry: Registry, line: str, *, alias: str = ALIAS) -> Version | None:
    """Let the alias name what it did before; None where that was nothing.

    Raises:
        InputError: it was never moved.
        StepError: MLflow does not answer.
    """
    try:
        return registry.undo(line, alias)
    except Unavailable as error:
        raise StepError(f"MLflow does not answer: {error}; nothing was moved, run it again") from None


def described(version: Version | None) -> str:
    """For people."""
    return f"{version.checkpoint} (version {version.version})" if version else "nothing"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
