"""What the last `argosy run` on a store was about, so that `status`, `logs`, `compare` and `why` need no config."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.config import Config
from argosy.config_explain import nearest
from argosy.errors import InputError
from argosy.storage import read_record, write_json

if TYPE_CHECKING:
    from workflows.plan import Plan

FILE = "last_run.json"


class LastRun(Config):
    """config: the lifecycle's, as JSON; directories: of each node by id, relative to the store."""

    config: dict[str, Any]
    directories: dict[str, str]


def record(planned: Plan, config: Config) -> None:
    """Note that `planned`, made of `config`, is about to run."""
    directories = {node.id: Path(node.dir).name for node in planned.nodes}
    # Only what was set: a seed that is written down would no longer follow the run's seed.
    run = LastRun(config=config.model_dump(mode="json", exclude_unset=True), directories=directories)
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
        near = nearest(name, known) or list(dict.fromkeys(key.partition("/")[0] for key in known))
        raise InputError(f"{name!r} is no node of the last run, and no directory; there are: {', '.join(near)}")
    return store / known[name]
