"""Promotion: the checkpoint that a model line's alias names, moved where its gate holds, with evidence, and back."""

import contextlib
import datetime
import getpass
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.core.errors import InputError, StepError
from argosy.core.store.files import make_directory, read_record, write_json
from argosy.core.store.lease import Lease
from argosy.core.store.step_files import RUN, read_done
from argosy.core.tracking.mlflow.registry import Moved, Registry, Version, registered_name
from argosy.core.tracking.ship import Unavailable
from argosy.evidence.gate.check import as_json, lines, summary
from workflows.nightly import PROMOTIONS
from workflows.nightly.candidates import (
    Candidate,
    Candidates,
    checkpoint_of,
    evaluations_of,
    generating_step,
    hold,
    reference_of,
)
from workflows.stored.events import ALIASES, note_event
from workflows.stored.lineage import ASIDE

if TYPE_CHECKING:
    from argosy.evidence.gate.check import Verdict
    from argosy.evidence.gate.config import Gate


ALIAS = "reference"


def keep(store: Path, evidence: Mapping[str, Any], outcome: str, path: Path | None = None) -> Path:
    """Write `<store>/.promotions/<time>-<kind>-<model>-<alias>-<checkpoint>.json`; no other evidence is replaced.

    `outcome`: `begun` (before the alias is moved, so that no crash loses the evidence), `moved`, or `refused`.
    `path`: of the file, where this evidence was written before."""
    parts = [evidence[field] or "nothing" for field in ("at", "kind", "model", "alias", "checkpoint")]
    name, number = re.sub(r"[^A-Za-z0-9._@-]+", "_", "-".join(parts)), 1
    while path is None:  # a new file: two promotions may be of one second
        new = make_directory(store / PROMOTIONS) / (f"{name}.json" if number == 1 else f"{name}-{number}.json")
        with contextlib.suppress(FileExistsError):
            new.touch(exist_ok=False)
            path = new
        number += 1
    write_json(path, {**evidence, "outcome": outcome})
    return path


def final_checkpoint(comparison: Path) -> Candidate:
    """The last checkpoint of the lifecycle whose compare step's directory this is: RLHF's, else DPO's, else SFT's.
    Raises InputError: it is not done, or has none."""
    done = read_done(comparison)
    if done is None:
        raise InputError(f"{comparison} is not the directory of a finished comparison: promotion needs one")
    settings = read_record(comparison / RUN).get("config", {})
    for directory in reversed(settings.get("checkpoints", [])):
        step = generating_step(Path(directory), [])
        if step is not None and step.stage not in ASIDE:
            return Candidate(step, step.final)
    raise InputError(f"{comparison} compares no checkpoint that can be promoted")


def examine(gate: "Gate", candidate: Candidate, candidates: Candidates, store: Path, registry: Registry, *, alias: str,
            model: str = "", reference: str = "", fetch: Callable[[Iterable[Path]], object] | None = None,
            ) -> "tuple[Verdict, str | None]":
    """Hold a checkpoint against its gate before a promotion, and print the verdict. One that the alias names already is
    held against what it named before.

    Args:
        reference: an alias or a checkpoint to compare with, instead of the checkpoint that `alias` names.
        fetch: brings the directories of evaluations here.

    Returns:
        The verdict, and the checkpoint that the alias names ("": nothing), which it must still name when it is moved;
        None where it was not compared with.

    Raises InputError: `reference` is neither; Unavailable: MLflow does not answer."""
    name = model or candidate.step.line
    named = registry.at(name, alias)
    already = named is not None and named.checkpoint == candidate.key
    if already and reference in ("", alias):
        before = registry.before(name, alias)
        compared = checkpoint_of(before, alias, candidates) if before is not None else None
    else:
        compared = reference_of(reference, alias, name, candidates, store, registry)
    if fetch is not None:
        both = [candidate, *([compared] if isinstance(compared, Candidate) else [])]
        fetch(path for each in both for path in evaluations_of(each, store))
    verdict = hold(gate, candidate, compared, store)
    print("\n".join(lines(verdict)), flush=True)
    if already or (reference and reference != alias):
        return verdict, candidate.key if already else None
    return verdict, compared.key if isinstance(compared, Candidate) else compared or ""


class Refused(StepError):
    """The gate does not hold."""


@dataclass(frozen=True)
class Grounds:
    """The reasons for which an alias is moved."""

    by: str = ""
    """User who decided it; "": the user of this process."""
    comparison: str = ""
    """Directory of the lifecycle's comparison."""
    workflow: str = ""
    """Argo workflow."""
    verdict: "Verdict | None" = None
    """Verdict of the gate; None where the model line has none."""
    force: str = ""
    """Why it is moved although the gate does not hold; "": it is not."""
    against: str | None = None
    """The checkpoint that the alias named when the gate was held ("": nothing); None: it does not matter."""


@contextlib.contextmanager
def alone(store: Path) -> Iterator[None]:
    """Keep other processes from moving an alias from this store: one waits for the other. Raises StepError: MLflow does
    not answer meanwhile."""
    lease = Lease(make_directory(store / PROMOTIONS))
    lease.acquire(lambda: False, lambda holder: print(
        f"waiting for another promotion, by process {holder.pid} on {holder.host}", file=sys.stderr, flush=True))
    try:
        yield
    except Unavailable as error:
        raise StepError(f"MLflow does not answer: {error}; nothing was moved, run it again") from None
    finally:
        lease.release()


def promote(registry: Registry, candidate: Candidate, store: Path, grounds: Grounds, *, alias: str = ALIAS,
            model: str = "") -> tuple[Version | None, Version]:
    """Let the alias name `candidate`; returns what it named before, and what now. Doing it again changes nothing.

    The new version carries who, when and on what grounds (tags `argosy.promoted.*`); the evidence is a file of the
    store (`.promotions/`) and an artifact of the model. A promotion that the gate refuses leaves its evidence too.
    Raises InputError: MLflow does not have the checkpoint; Refused: the gate does not hold, and nobody forces it;
    Moved: the alias names another checkpoint than the gate compared with; StepError: MLflow does not answer."""
    line, verdict = candidate.step.line, grounds.verdict
    name = registered_name(model or line)
    with alone(store):
        before = registry.at(name, alias)
        if before is not None and before.checkpoint == candidate.key:
            if verdict is not None and not verdict.holds and not grounds.force:
                raise Refused(f"the gate {summary(verdict)}, and {name}@{alias} names it already: nothing was moved; "
                              "argosy promote --undo lets it name what it did before")
            return before, before
        named = before.checkpoint if before else ""
        if grounds.against is not None and grounds.against != named:
            raise Moved(name, alias, grounds.against, named)
        evidence = _evidence("promote", name, alias, candidate.key, named, grounds)
        if verdict is not None and not verdict.holds and not grounds.force:
            path = keep(store, evidence, "refused")
            raise Refused(f"the gate {summary(verdict)}, so {name}@{alias} stays {described(before)}; evidence: {path}")
        path = keep(store, evidence, "begun")
        tags = {key: evidence[key] for key in ("by", "alias", "comparison", "workflow", "at")}
        tags |= {"gate": verdict.status if verdict else "none", "forced": grounds.force, "evidence": str(path)}
        now = registry.move(name, alias, line, candidate.key,
                            {f"argosy.promoted.{key}": value for key, value in tags.items()}, path, named)
        _moved(store, evidence, path)
        return before, now


def undo(registry: Registry, line: str, store: Path, *, alias: str = ALIAS, by: str = "") -> Version | None:
    """Let the alias name what it did before; None where that was nothing. The evidence is kept, as of a promotion.
    Raises InputError: it was never moved; StepError: MLflow does not answer."""
    with alone(store):
        back, away = (version.checkpoint if version else ""
                      for version in (registry.before(line, alias), registry.at(line, alias)))
        evidence = _evidence("undo", registered_name(line), alias, back, away, Grounds(by))
        path = keep(store, evidence, "begun") if away else None
        now = registry.undo(line, alias)
        _moved(store, evidence, path)
        return now


def _moved(store: Path, evidence: Mapping[str, Any], path: Path | None) -> None:
    """Keep the evidence of an alias that has moved, and note the event."""
    keep(store, evidence, "moved", path)
    parts = f"{evidence['model']}@{evidence['alias']}", evidence["checkpoint"] or "nothing", evidence["at"]
    note_event(store, ALIASES, "@".join(parts), evidence)


def _evidence(kind: str, model: str, alias: str, checkpoint: str, before: str, grounds: Grounds) -> dict[str, Any]:
    """The evidence of a promotion or its undoing: the alias is to name `checkpoint`, and named `before`."""
    user = ""
    with contextlib.suppress(KeyError, OSError):
        user = grounds.by or getpass.getuser()
    return {"kind": kind, "alias": alias, "model": model, "by": user,
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "checkpoint": checkpoint,
            "before": before, "comparison": grounds.comparison, "workflow": grounds.workflow, "force": grounds.force,
            "gate": as_json(grounds.verdict) if grounds.verdict else None}


def described(version: Version | None) -> str:
    """The checkpoint of a version and its number, for people."""
    return f"{version.checkpoint} (version {version.version})" if version else "nothing"
