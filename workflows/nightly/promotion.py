"""Which checkpoint a model line's alias names: moved on purpose, where its gate holds, with the evidence, and back."""

from __future__ import annotations

import contextlib
import datetime
import getpass
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.errors import InputError, StepError
from argosy.gate.render import summary
from argosy.lease import Lease
from argosy.step_files import RUN, read_done
from argosy.storage import make_directory, read_record
from argosy.tracking.registry import Moved, Registry, Version, registered_name
from argosy.tracking.shipper import Unavailable
from workflows.nightly.evidence import FOLDER, Evidence, keep
from workflows.nightly.found import read_trained
from workflows.nightly.reference import Chosen

if TYPE_CHECKING:
    from argosy.gate.check import Verdict

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


class Refused(StepError):
    """The gate does not hold."""


@dataclass(frozen=True)
class Grounds:
    """Why an alias is moved.

    Attributes:
        by: who decided it; "": the user of this process.
        comparison: directory of the lifecycle's comparison; workflow: of Argo.
        verdict: of the gate; None where the model line has none.
        force: why it is moved although the gate does not hold; "": it is not.
        against: the checkpoint that the alias named when the gate was asked ("": nothing); None: it does not matter.
    """

    by: str = ""
    comparison: str = ""
    workflow: str = ""
    verdict: Verdict | None = None
    force: str = ""
    against: str | None = None


@contextlib.contextmanager
def alone(store: Path) -> Iterator[None]:
    """Inside, no other process moves an alias from this store: one waits for the other."""
    lease = Lease(make_directory(store / FOLDER))
    lease.acquire(lambda: False, lambda holder: print(
        f"waiting for another promotion, by process {holder.pid} on {holder.host}", file=sys.stderr, flush=True))
    try:
        yield
    finally:
        lease.release()


def promote(registry: Registry, chosen: Chosen, store: Path, grounds: Grounds, *, alias: str = ALIAS,
            model: str = "") -> tuple[Version | None, Version]:
    """Let the alias name `chosen`; returns what it named before, and what now. Doing it again changes nothing.

    The new version carries who, when and on what grounds (tags `argosy.promoted.*`); the evidence is a file of the
    store (`.promotions/`) and an artifact of the model. A promotion that the gate refuses leaves its evidence too.

    Raises:
        InputError: MLflow does not know the checkpoint.
        Refused: the gate does not hold, and nobody forces it.
        Moved: the alias names something else than what the gate was asked about.
        StepError: MLflow does not answer.
    """
    with alone(store):
        return _promote(registry, chosen, store, grounds, alias, model)


def _promote(registry: Registry, chosen: Chosen, store: Path, grounds: Grounds, alias: str,
             model: str) -> tuple[Version | None, Version]:
    line = chosen.trained.line
    verdict = grounds.verdict
    by, at = grounds.by or _user(), _now()
    try:
        before = registry.at(model or line, alias)
        if before is not None and before.checkpoint == chosen.key:
            return before, before
        named = before.checkpoint if before else ""
        if grounds.against is not None and grounds.against != named:
            raise Moved(registered_name(model or line), alias, grounds.against, named)
        evidence = Evidence("promote", alias, registered_name(model or line), by, at, chosen.key,
                            named, grounds.comparison, grounds.workflow, grounds.force, verdict)
        if verdict is not None and not verdict.holds and not grounds.force:
            path = keep(store, evidence, "refused")
            raise Refused(f"the gate {summary(verdict)}, so {evidence.model}@{alias} stays "
                          f"{described(before)}; evidence: {path}")
        path = keep(store, evidence, "begun")
        gate = "none" if verdict is None else verdict.status
        tags = {"by": by, "alias": alias, "comparison": grounds.comparison, "workflow": grounds.workflow, "at": at,
                "gate": gate, "forced": grounds.force, "evidence": str(path)}  # fmt: skip
        now = registry.move(model or line, alias, line, chosen.key,
                            {f"argosy.promoted.{name}": value for name, value in tags.items()}, path, named)
        keep(store, evidence, "moved", path)
        return before, now
    except Unavailable as error:
        raise StepError(f"MLflow does not answer: {error}; nothing was moved, run it again") from None


def undo(registry: Registry, line: str, store: Path, *, alias: str = ALIAS, by: str = "") -> Version | None:
    """Let the alias name what it did before; None where that was nothing. The evidence is kept, as of a promotion.

    Raises:
        InputError: it was never moved.
        StepError: MLflow does not answer.
    """
    try:
        with alone(store):
            before = registry.at(line, alias)
            now = registry.undo(line, alias)
    except Unavailable as error:
        raise StepError(f"MLflow does not answer: {error}; nothing was moved, run it again") from None
    keep(store, Evidence("undo", alias, registered_name(line), by or _user(), _now(), now.checkpoint if now else "",
                         before.checkpoint if before else ""), "moved")
    return now


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def described(version: Version | None) -> str:
    """For people."""
    return f"{version.checkpoint} (version {version.version})" if version else "nothing"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
