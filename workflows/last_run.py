"""What the last `argosy run` on a store was about, so that `status`, `logs`, `compare` and `why` need no config."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field, ValidationError

from argosy.config import Config
from argosy.config_explain import config_error, nearest
from argosy.errors import InputError
from argosy.storage import read_record, write_json

if TYPE_CHECKING:
    from workflows.plan import Plan

C = TypeVar("C", bound=Config)
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
    return _valid(LastRun, found, store)


def last_config(store: Path, cls: type[C]) -> C:
    """The config of the last run, of class `cls`.

    Raises:
        InputError: nothing has run in `store`, or another version of Argosy ran, whose config had other fields.
    """
    return _valid(cls, last_run(store).config, store)


def _valid(cls: type[C], found: dict[str, Any], store: Path) -> C:
    try:
        return cls.model_validate(found)
    except ValidationError as error:
        raise InputError(f"{store / FILE} is of another version of Argosy: 'argosy run' writes a new one "
                         f"({config_error(cls, error)})") from None


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
