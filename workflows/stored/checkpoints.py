"""Checkpoints of a store by name."""

from pathlib import Path
from typing import Any

from argosy.config.explain import likely
from argosy.errors import InputError
from argosy.store.step_files import OUTPUTS, read_done
from workflows.state import blocked_by, state_of
from workflows.stored.last_run import directory_of, nodes


def unfinished(store: Path, name: str, directory: Path) -> str:
    """Why `directory`, which belongs to the node `name`, has no results yet, and what to type."""
    state = state_of(str(directory))
    at = "" if store == Path("runs") else f" --store {store}"
    if state is None:
        cause = _blocked(store).get(name)
        if cause:
            return f"{name} has not run: it is blocked, as {cause} failed; 'argosy logs {cause}{at}' shows why"
        return f"{name} has not run yet (pending); 'argosy run', with the options of the last time, goes on"
    if state.name == "running":
        return f"{name} is not done yet, it is {state.reason}; 'argosy logs {name} -f{at}' follows it"
    if state.name == "failed":
        return f"{name} {state.reason}; 'argosy logs {name}{at}' shows more"
    if state.reason.startswith(OUTPUTS):
        return (f"{name} is not done: its {OUTPUTS} is broken; 'argosy run', with the options of the last time, "
                "runs it again")
    return f"{name} is not done: it {state.reason}; 'argosy run', with the options of the last time, goes on"


def _blocked(store: Path) -> dict[str, str]:
    run = nodes(store)
    states = {key: state_of(str(store / path)) for key, path in run.directories.items()}
    return blocked_by(run.upstream, {key for key, state in states.items() if state and state.name == "failed"})


def checkpoint_directory(store: Path, name: str) -> Path:
    """Directory of `name`: a stage (its last checkpoint's step), STAGE/EXPORT, a node, or a directory.

    Raises:
        InputError: there is no such thing (names the nearest), or it is not done.
    """
    stage, _, export = name.partition("/")
    try:
        path = directory_of(store, name)
    except InputError:
        if not export or stage not in nodes(store).directories:
            raise
        return _export(store, stage, export)
    if not path.exists():
        raise InputError(unfinished(store, name, path))
    return path


def model_directory(store: Path, name: str) -> Path:
    """Directory of `name` as `checkpoint_directory`, or of any model that transformers loads.

    Raises:
        InputError: there is no such thing, or it is not done.
    """
    directory = Path(name).expanduser()
    if (directory / "config.json").is_file():
        return directory
    if name.startswith(("/", "./", "../", "~")) and not directory.exists():
        raise InputError(f"CHECKPOINT is {name!r}: there is no such directory")
    if name in ("", ".", ".."):
        raise InputError(f"CHECKPOINT is {name!r}: {directory.absolute()} holds no model (config.json)")
    return checkpoint_directory(store, name)


def _export(store: Path, stage: str, export: str) -> Path:
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
