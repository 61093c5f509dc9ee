"""What the last `argosy run` on a store was about, so that `status`, `logs`, `compare` and `why` need no config."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from argosy.config import Config
from argosy.config_explain import nearest
from argosy.errors import InputError
from argosy.storage import read_record, write_json
from workflows.state import blocked_by, state_of

if TYPE_CHECKING:
    from workflows.plan import Plan

FILE = "last_run.json"
_MANY = 20  # names that are listed


class LastRun(Config):
    """What is known without a config.

    Attributes:
        config: the lifecycle's, as JSON.
        directories: of each node by id, relative to the store.
        upstream: ids that each node depends on.
        stages: in the order of the pipeline.
    """

    config: dict[str, Any]
    directories: dict[str, str]
    upstream: dict[str, list[str]] = Field(default_factory=dict)
    stages: tuple[str, ...] = ()


def record(planned: Plan, config: Config) -> None:
    """Note that `planned`, made of `config`, is about to run."""
    directories = {node.id: Path(node.dir).name for node in planned.nodes}
    upstream = {node.id: list(node.upstream) for node in planned.nodes}
    # Only what was set: a seed that is written down would no longer follow the run's seed.
    set_ = config.model_dump(mode="json", exclude_unset=True)
    run = LastRun(config=set_, directories=directories, upstream=upstream, stages=planned.stages)
    write_json(Path(planned.store) / FILE, run.model_dump(), durable=False)


def last_run(store: Path) -> LastRun:
    """What `record` noted.

    Raises:
        InputError: nothing has run in `store`.
    """
    found = read_record(store / FILE)
    if not found:
        raise InputError(f"nothing has run in {store} yet: start with 'argosy run', or name another --store")
    return LastRun.model_validate(found)


def directory_of(store: Path, name: str) -> Path:
    """Directory of the node `name` of the last run, or `name` itself where it is a directory.

    Raises:
        InputError: it is neither; names the nearest nodes.
    """
    for path in (Path(name), store / name):
        if path.is_dir() and name not in ("", "."):
            return path
    known = last_run(store).directories
    if name not in known:
        raise InputError(_unknown(name, last_run(store)))
    return store / known[name]


def _unknown(name: str, run: LastRun) -> str:
    """What there is instead of `name`."""
    if parts := [key for key in run.directories if key.startswith(f"{name}/")]:
        more = f" and {len(parts) - _MANY} more" if len(parts) > _MANY else ""
        return f"{name} is not one node; name a part of it: {', '.join(parts[:_MANY])}{more}"
    near = nearest(name, run.directories)
    stages = run.stages or tuple(dict.fromkeys(key.partition("/")[0] for key in run.directories))
    hints = [f"nearest: {', '.join(near)}"] if near else []
    hints += [f"stages: {', '.join(stages)}"] if len(stages) <= _MANY else []
    return f"{name!r} is no node of the last run, and no directory; {'; '.join(hints)}"


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
    return f"{name} is not done: it {state.reason}; 'argosy run', with the options of the last time, goes on"


def _blocked(store: Path) -> dict[str, str]:
    run = LastRun.model_validate(read_record(store / FILE) or {"config": {}, "directories": {}})
    states = {key: state_of(str(store / path)) for key, path in run.directories.items()}
    return blocked_by(run.upstream, {key for key, state in states.items() if state and state.name == "failed"})
