"""A checkpoint of a store against the gate of its model line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.comparison.precedence import in_order
from argosy.errors import InputError
from argosy.identity import Identities
from argosy.step_files import read_done
from workflows.nightly.found import Found, add_known
from workflows.nightly.reference import Chosen, by_key, by_name
from workflows.pipelines import newest_config

if TYPE_CHECKING:
    from argosy.gate.check import Verdict
    from argosy.gate.config import Gate
    from argosy.gate.subject import Subject
    from argosy.tracking.registry import Version
    from workflows.nightly.aliases import Aliases


def gate_for(file: Path | None, store: Path, line: str) -> Gate | None:
    """The gate of `file`, else the `gate` section of the line's newest config; None where there is neither.

    Raises:
        InputError: the file or a rule in it is wrong.
    """
    from argosy.gate.config import read_gate

    if file is not None:
        return read_gate(file)
    config = newest_config(store, line)
    return config.gate if config is not None else None


def hold(gate: Gate, new: Chosen, reference: Chosen | str | None, store: Path) -> Verdict:
    """Hold a checkpoint against the gate, by the evaluations that are done.

    Args:
        reference: what it must not be worse than; a name alone, where it cannot be seen from here; None: nothing.
    """
    from argosy.gate.check import check
    from argosy.gate.subject import Subject

    second = Subject(reference, reference) if isinstance(reference, str) else reference and _subject(reference, store)
    return check(gate, _subject(new, store), second or None)


def reference_of(name: str, alias: str, model: str, found: Found, store: Path,
                 aliases: Aliases | None) -> Chosen | str | None:
    """What `name` (an alias or a checkpoint) names; without it, what `alias` names, None where that is nothing.

    Raises:
        InputError: `name` is neither.
        Unavailable: MLflow does not answer.
    """
    version = aliases.at(model, name or alias) if aliases is not None else None
    if version is not None:
        return at_version(version, found)
    if not name:
        return None
    try:
        return by_name(name, found, store, Identities())[-1]
    except InputError as error:
        raise InputError(f"reference: {name!r} is no alias of the registered model {model!r}, and {error}") from None


def at_version(version: Version, found: Found) -> Chosen | str:
    """The checkpoint of a version; its key alone where it cannot be seen from here."""
    if by_key(version.checkpoint, found) is None:
        add_known(found, [(version.checkpoint, version.path)])
    return by_key(version.checkpoint, found) or version.checkpoint


def evaluations_of(chosen: Chosen, store: Path) -> list[Path]:
    """Directories of a checkpoint's finished evaluations, in its own store and in this one; what counts comes last."""
    stores: Sequence[Path] = list(dict.fromkeys([chosen.trained.directory.absolute().parent, store.absolute()]))
    found = []
    for path in (path for each in stores for path in each.glob("evaluate-*")):
        done = read_done(path)
        if done and done["made_from"]["upstream"].get("checkpoint") == [chosen.trained.digest] and (
            done["outputs"]["checkpoint"]["name"] == chosen.export):
            found.append((path, done))
    return [path for path, _ in in_order(found)]


def _subject(chosen: Chosen, store: Path) -> Subject:
    from argosy.gate.subject import Subject, read_subject

    evaluations = evaluations_of(chosen, store)
    if not evaluations:
        return Subject(chosen.label, chosen.key, notes=[f"{chosen.label} is not evaluated: argosy nightly "
                                                        f"--checkpoint {chosen.trained.directory.name}"])
    return read_subject(evaluations, chosen.label)
