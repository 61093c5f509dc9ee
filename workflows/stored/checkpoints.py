"""Checkpoints of a store by name."""

from pathlib import Path

from argosy.core.config.explain import likely
from argosy.core.errors import InputError
from argosy.core.store.step_files import NODE, OUTPUTS, read_done
from argosy.model.weights.pretrained import is_gguf
from workflows.graph import FINAL
from workflows.plan import blocked_by, state_of
from workflows.stored.last_run import directory_of, node_of, nodes
from workflows.stored.lineage import TrainingStep, training_step

UNPACKED = ".models"  # below a store: GGUF files as directories of transformers, by their digest


def unfinished(store: Path, name: str, directory: Path) -> str:
    """Why `directory`, which belongs to the node `name`, has no results yet, and what to type."""
    state = state_of(str(directory))
    at = "" if store == Path("runs") else f" --store {store}"
    if state is None:
        run = nodes(store)
        states = {key: state_of(str(store / path)) for key, path in run.directories.items()}
        failed = {key for key, each in states.items() if each and each.name == "failed"}
        cause = blocked_by(run.upstream, failed).get(name)
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


def result_directory(store: Path, name: str) -> Path:
    """Find the directory of `name`: a node, STAGE/EXPORT, or a directory, done or not.

    Raises InputError: there is no such thing (names the nearest), or it has not begun."""
    node = node_of(store, name)
    if node not in ("", name):
        return _export(store, node, name.removeprefix(f"{node}/"))
    path = directory_of(store, name)
    if not path.exists():
        raise InputError(unfinished(store, name, path))
    return path


def checkpoint_directory(store: Path, name: str) -> Path:
    """Find the directory of `name` as `result_directory` does, of what is done: a stage is its last checkpoint.

    Raises InputError: there is no such thing, or it failed or is not done otherwise; says which."""
    path = result_directory(store, name)
    if (path / NODE).is_file() and read_done(path) is None:
        raise InputError(unfinished(store, name, path))
    return path


def model_directory(store: Path, name: str) -> Path:
    """Find the directory of `name` as `checkpoint_directory` does, or of any model that transformers loads; a GGUF file
    is dequantized into a directory below the store.

    Raises InputError: there is no such thing, or it is not done."""
    if is_gguf(file := Path(name).expanduser()):
        from argosy.model.weights.elsewhere.gguf import unpack

        return unpack(file, store / UNPACKED)
    if name not in ("", ".", ".."):
        return checkpoint_directory(store, name)
    if name and (Path(name) / "config.json").is_file():
        return Path(name)
    raise InputError(f"CHECKPOINT is {name!r}: {Path(name).absolute()} holds no model (config.json)")


def _export(store: Path, stage: str, export: str) -> Path:
    directory = directory_of(store, stage)
    step = training_step(directory)
    if step is None and read_done(directory) is None:
        raise InputError(unfinished(store, stage, directory))
    known = {**step.exports, FINAL: step.exports[step.final]} if step else {}
    if export not in known:
        raise InputError(f"{stage} has no checkpoint {export!r}; {likely(export, known) or 'it has none'}")
    return directory / known[export]


def export_name(step: TrainingStep, path: Path) -> str:
    """Name of the export that `path` is, or of the final one where `path` is the step's directory.

    Raises InputError: `path` is neither; names the exports."""
    if path.absolute() == step.directory.absolute():
        return step.final
    for name, below in step.exports.items():
        if path.absolute() == (step.directory / below).absolute():
            return name
    raise InputError(f"{path} is not a checkpoint of {step.directory}; there are: {', '.join(step.exports.values())}")
