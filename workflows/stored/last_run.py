"""The last `argosy run` on a store and the configs of its pipelines, so that commands need none; its nodes, and the
checkpoints of a store, by name."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from argosy.core.config.explain import config_error, first_of, likely, nearest
from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.store.files import make_directory, read_record, write_json
from argosy.core.store.provenance import DIGITS
from argosy.core.store.step_files import NODE, OUTPUTS, ended, read_done
from argosy.core.tracking.spool import PIPELINES
from argosy.model.weights.pretrained import is_gguf
from workflows.graph import FINAL, LINE
from workflows.plan import blocked_by, state_of
from workflows.stored.lineage import TrainingStep, line_of, step_directories, step_directory, training_step

C = TypeVar("C", bound=Config)
FILE = "last_run.json"
PIPELINE_CONFIG = "config.json"  # in the folder of a pipeline run
UNPACKED = ".models"  # below a store: GGUF files as directories of transformers, by their digest
_MANY = 20  # names that are listed
_PLACES = ("/", "./", "../", "~")  # beginnings of a path, which no node's name has


class LastRun(Config):
    """The last run, as commands know it without a config."""

    config: dict[str, Any]
    """The lifecycle's, as JSON."""
    directories: dict[str, str]
    """Directory of each node by id, relative to the store."""
    upstream: dict[str, list[str]] = Field(default_factory=dict)
    """Ids that each node depends on."""
    stages: tuple[str, ...] = ()
    """Stages in the order of the pipeline."""


def record(store: Path, nodes: Mapping[str, tuple[str, Iterable[str]]], stages: Iterable[str], config: Config) -> None:
    """Note that `nodes` (by id, the directory and the ids upstream), made of `config`, are about to run."""
    directories = {name: Path(directory).name for name, (directory, _) in nodes.items()}
    upstream = {name: list(names) for name, (_, names) in nodes.items()}
    # Only what was set: a seed that is written down would no longer follow the run's seed.
    set_ = config.model_dump(mode="json", exclude_unset=True)
    run = LastRun(config=set_, directories=directories, upstream=upstream, stages=tuple(stages))
    write_json(store / FILE, run.model_dump(), durable=False)


def last_run(store: Path) -> LastRun:
    """Read what `record` noted. Raises InputError: nothing has run in `store`."""
    found = read_record(store / FILE)
    if not found:
        raise InputError(f"nothing has run in {store} yet: start with 'argosy run', or name another --store")
    return _valid(LastRun, found, store)


def last_config(store: Path, cls: type[C]) -> C:
    """Read the config of the last run, of class `cls`. Raises InputError: nothing has run in `store`, or another
    version of Argosy ran, whose config had other fields."""
    return _valid(cls, last_run(store).config, store)


def _valid(cls: type[C], found: dict[str, Any], store: Path) -> C:
    try:
        return cls.model_validate(found)
    except ValidationError as error:
        raise InputError(f"{store / FILE} is of another version of Argosy: 'argosy run' writes a new one "
                         f"({config_error(cls, error)})") from None


def nodes(store: Path) -> LastRun:
    """Read the last run; of a store that pods alone wrote, make one up of the newest finished directory of each node.
    Raises InputError: nothing has run in `store`."""
    done = [(ended(path), record["made_from"], path.name) for _, path in step_directories(store)
            if not (store / FILE).exists() and (record := read_done(path)) is not None]
    if not done:
        return last_run(store)
    by_age = sorted(done, key=lambda each: each[0])
    return LastRun(config={}, directories={"/".join(filter(None, (made["node"], made["part"]))): directory
                                           for _, made, directory in by_age})


def node_of(store: Path, name: str) -> str:
    """Return the node of the last run that `name` is, or names an export of; "" where it is a path or no such name."""
    if name.startswith(_PLACES):
        return ""
    try:
        known = nodes(store).directories
    except InputError:
        return ""
    return next((each for each in (name, name.partition("/")[0]) if each in known), "")


def directory_of(store: Path, name: str) -> Path:
    """Find the directory of the node `name` (see `nodes`); else `name` itself, where it is a directory, or one of the
    store. A folder beside a node of its name is said to be passed over.

    Raises InputError: it is neither; names the nearest nodes."""
    folder = next((path for path in (Path(name).expanduser(), store / name) if path.is_dir()), None)
    if node := node_of(store, name):
        if folder and folder != store / name:
            print(f"{name}: the stage {node} of the last run is taken; the folder is ./{name}", file=sys.stderr)
        run = nodes(store)
        if node != name:
            raise InputError(_unknown(name, run))
        return store / run.directories[name]
    if folder and name not in ("", "."):
        return folder
    if name.startswith(_PLACES):
        raise InputError(f"{name!r}: there is no such directory")
    raise InputError(_unknown(name, nodes(store)))


def _unknown(name: str, run: LastRun) -> str:
    """Make the error for an unknown `name`, with what there is instead."""
    if parts := [key for key in run.directories if key.startswith(f"{name}/")]:
        return f"{name} is not one node; name a part of it: {first_of(parts, _MANY)}"
    near = nearest(name, run.directories)
    stages = run.stages or tuple(dict.fromkeys(key.partition("/")[0] for key in run.directories))
    hints = [f"nearest: {', '.join(near)}"] if near else []
    hints += [f"stages: {', '.join(stages)}"] if len(stages) <= _MANY else []
    return f"{name!r} is no node of the last run, and no directory; {'; '.join(hints)}"


def line_of_model(store: Path, path: Path) -> str:
    """Return the model line of a checkpoint: its step's; of a model that no step made that of the store's last run."""
    try:
        return line_of(step_directory(path))
    except InputError:
        config = read_record(store / FILE).get("config")
    return "argosy" if config is None else str(config.get("name", LINE))


def record_pipeline(store: Path, pipeline: str, config: Config) -> None:
    """Write the config of the pipeline run `pipeline`: the fields that were set, so that a seed follows the run's."""
    folder = make_directory(store / PIPELINES / pipeline)
    write_json(folder / PIPELINE_CONFIG, config.model_dump(mode="json", exclude_unset=True), durable=False)


def newest_config(store: Path, line: str, cls: type[C]) -> C | None:
    """Read the newest config of a model line in `store`, of class `cls`; None where nothing of it has run. Raises
    InputError: this version does not take it; without its suites and its gate it would be another night."""
    files = sorted(store.glob(f"{PIPELINES}/*/{PIPELINE_CONFIG}"), key=os.path.getmtime, reverse=True)
    contents = {path: read_record(path) for path in files} | {store / FILE: read_record(store / FILE).get("config", {})}
    for path, content in contents.items():
        if content and content.get("name", cls.model_fields["name"].default) == line:
            try:
                return cls.model_validate(content)
            except ValidationError as error:
                raise InputError(f"{path}, the newest config of the model line {line!r}, is of another version of "
                                 f"Argosy ({config_error(cls, error)}): 'argosy run' writes a new one, or correct it "
                                 "there") from None
    return None


def unfinished(store: Path, name: str, directory: Path) -> str:
    """Why `directory`, of the node `name`, has no results yet, what to type, and where an earlier config's are."""
    others = [path for _, path in step_directories(directory.parent) if path.name[:-DIGITS] == directory.name[:-DIGITS]]
    done = [path for path in others if path != directory and read_done(path) is not None]
    earlier = f"; the newest that is done is {max(done, key=ended)}" if done else ""
    return _why_unfinished(store, name, directory) + earlier


def _why_unfinished(store: Path, name: str, directory: Path) -> str:
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
    """Find the directory of `name`: a node, STAGE/EXPORT, or a directory, done or not. Raises InputError: there is no
    such thing (names the nearest), or it has not begun."""
    node = node_of(store, name)
    if node in ("", name):
        path = directory_of(store, name)
        if not path.exists():
            raise InputError(unfinished(store, name, path))
        return path
    directory, export = directory_of(store, node), name.removeprefix(f"{node}/")
    step = training_step(directory)
    if step is None and read_done(directory) is None:
        raise InputError(unfinished(store, node, directory))
    known = {**step.exports, FINAL: step.exports[step.final]} if step else {}
    if export not in known:
        raise InputError(f"{node} has no checkpoint {export!r}; {likely(export, known) or 'it has none'}")
    return directory / known[export]


def checkpoint_directory(store: Path, name: str) -> Path:
    """Find the directory of `name` as `result_directory` does, of what is done: a stage is its last checkpoint. Raises
    InputError: there is no such thing, or it failed or is not done otherwise; says which."""
    path = result_directory(store, name)
    if (path / NODE).is_file() and read_done(path) is None:
        raise InputError(unfinished(store, name, path))
    return path


def model_directory(store: Path, name: str) -> Path:
    """Find the directory of `name` as `checkpoint_directory` does, or of any model that transformers loads; a GGUF file
    is dequantized into a directory below the store. Raises InputError: there is no such thing, or it is not done."""
    if is_gguf(file := Path(name).expanduser()):
        from argosy.model.weights.elsewhere.imported import unpack_gguf

        return unpack_gguf(file, store / UNPACKED)
    if name not in ("", ".", ".."):
        return checkpoint_directory(store, name)
    if name and (Path(name) / "config.json").is_file():
        return Path(name)
    raise InputError(f"CHECKPOINT is {name!r}: {Path(name).absolute()} holds no model (config.json)")


def export_name(step: TrainingStep, path: Path) -> str:
    """Name of the export that `path` is, or of the final one where `path` is the step's directory. Raises InputError:
    `path` is neither; names the exports."""
    known = {(step.directory / below).absolute(): name for name, below in step.exports.items()}
    known[step.directory.absolute()] = step.final
    if path.absolute() in known:
        return known[path.absolute()]
    raise InputError(f"{path} is not a checkpoint of {step.directory}; there are: {', '.join(step.exports.values())}")
