"""Checkpoints of a store by name."""

from pathlib import Path

from argosy.config.explain import likely
from argosy.errors import InputError
from argosy.store.step_files import OUTPUTS, read_done
from workflows.evaluation import FINAL
from workflows.state import blocked_by, state_of
from workflows.stored.last_run import directory_of, nodes
from workflows.stored.lineage import TrainingStep, training_step


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


def checkpoint_directory(store: Path, name: str) -> Path:
    """Directory of `name`: a stage (its last checkpoint's step), STAGE/EXPORT, a node, or a directory.

    Raises InputError: there is no such thing (names the nearest), or it is not done."""
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

    Raises InputError: there is no such thing, or it is not done."""
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
