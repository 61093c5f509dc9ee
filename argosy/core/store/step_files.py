"""Records below a step's directory: their names, readers, and the failed parts that the next run computes again."""

import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from argosy.core.config.schema import Config, Role
from argosy.core.errors import InputError
from argosy.core.store.files import read_json, read_record

STORE_URI = "ARGOSY_STORE_URI"  # the bucket that the store's directory is a mirror of, in a pod of its own
OUTPUTS = "outputs.json"  # done
NODE = "node.json"  # what it is made from, from the first moment on
RUN = "run.json"  # attempts, times, host: what differs between two runs of the same config
ERROR = "error.json"  # the last failure, until it succeeds
LOG = "log.txt"
PROGRESS = "progress.json"
TRACKING = "tracking"
WATCH = "watch.json"  # decisions about trouble in training, where there was any
STATE = "state"  # what an interrupted step goes on from, if it keeps any; removed once it is done
RANK_LOGS = "log-*.txt"  # of a step's ranks and of a server that it starts, beside LOG
SERVER_LOG = "log-server.txt"
RECORDS = {OUTPUTS, NODE, RUN, ERROR, LOG, PROGRESS, TRACKING, STATE}  # of attempts, beside what the step makes


def rank_log(rank: int) -> str:
    """Return the name of a rank's log."""
    return RANK_LOGS.replace("*", f"rank{rank}")


def result_files(directory: Path) -> dict[str, int]:
    """Return the bytes of each file that a step made, by its path: not the records of attempts, nor pages, which may
    hold times and which no step reads."""
    found = {path.relative_to(directory): path for path in directory.rglob("*")}
    return {str(name): path.stat().st_size for name, path in sorted(found.items()) if not _is_record(name)
            and path.is_file()}


def _is_record(name: Path) -> bool:
    first = name.parts[0]
    return (first in RECORDS or first.startswith(".") or fnmatchcase(first, RANK_LOGS) or name.suffix == ".html"
            or fnmatchcase(name.name, ".*.tmp"))


def check_files(directory: str | Path, field: str) -> None:
    """Check that the results of a finished step, the value of `field`, or those below a folder of one, are all there.
    Raises InputError: names the first that is missing or has another size."""
    given = Path(os.path.abspath(directory))
    for owner in (given, *given.parents[:2]):
        for name, size in (read_record(owner / OUTPUTS).get("files") or {}).items():
            path = owner / name
            if given != owner and given not in path.parents:
                continue
            if path.parent.parent.name == "checkpoints" and not path.parent.is_dir():
                continue  # a whole one was removed to have its space: a step that reads it says so itself
            there = path.stat().st_size if path.is_file() else None
            if there != size:
                now = "is missing" if there is None else f"has {there:,} bytes"
                raise InputError(f"{field}: {path} {now}, and had {size:,} when its step ended: remove {owner} and run "
                                 "again, which makes it anew")


def read_done(directory: str | Path) -> dict[str, Any] | None:
    """Return the content of `outputs.json` if the step is done, else None.

    A file that is not whole counts as not done, with a warning: the step runs again."""
    path = f"{directory}/{OUTPUTS}"
    record = read_record(path)
    if isinstance(record.get("outputs"), dict) and isinstance(record.get("made_from"), dict):
        return record
    if Path(path).exists():
        warnings.warn(f"{path} is broken (truncated or not ours): taken as not done", stacklevel=2)
    return None


def read_whole(directory: str | Path) -> dict[str, Any] | None:
    """Return what `read_done` does, but None, with a warning, where a result was cut: for what decides what runs."""
    done = read_done(directory)
    if done is None or not (cut := cut_file(directory, done)):
        return done
    warnings.warn(f"{cut}: taken as not done", stacklevel=2)
    return None


def cut_file(directory: str | Path, record: Mapping[str, Any]) -> str:
    """Say which result has not the size that `record`, an `outputs.json`, has of it; "" where none. One that is gone
    may have been removed for its space: who reads it says so."""
    for name, size in (record.get("files") or {}).items():
        with suppress(OSError):
            if (now := os.stat(f"{directory}/{name}").st_size) != size:
                return f"{directory}/{name} has {now:,} bytes, and had {size:,} when its step ended"
    return ""


def ended(directory: Path) -> float:
    """Return when a finished step ended, in seconds since the epoch: by its run.json, else by its outputs' time."""
    found = read_record(directory / RUN).get("ended")
    return float(found) if isinstance(found, int | float) else (directory / OUTPUTS).stat().st_mtime


def read_outputs(directory: str | Path, field: str = "") -> dict[str, Any]:
    """Return the `outputs` of a finished step's directory, the value of the config's `field`. Raises InputError: the
    directory has no readable outputs.json."""
    path = Path(directory) / OUTPUTS
    if not path.exists():
        where = f"{field}: {directory}" if field else str(directory)
        raise InputError(f"{where} is not the directory of a finished step: there is no {path}")
    outputs: dict[str, Any] = read_json(path)["outputs"]
    return outputs


def given_directory(field: str, directory: str, step: str) -> Path:
    """Return `directory`, the value of a config's upstream `field`, which cannot do without. Raises InputError: it is
    empty, as in a step that is run by hand with too little; says that `step` is wanted."""
    if not directory:
        raise InputError(f"{field} is empty: give the directory of a finished {step} step, such as "
                         f'--config \'{{"{field}": "DIR"}}\'')
    return Path(directory)


AGAIN = "again"  # key of outputs.json: names of failed parts that may pass another time
TRIED = "tried"  # key of run.json: the runs that ended by themselves with such parts; one that was killed is none
RETRY_FAILED = "already done; retrying its failed parts failed"
_MOST_RUNS = 3


class Retry(NamedTuple):
    """Names of the parts that the next run retries; `runs` so far that retried them, for run.json."""

    own: list[str]
    upstream: list[str]
    runs: int

    def record(self, outputs: Mapping[str, Any], made_from: Mapping[str, Any],
               files: Mapping[str, int] | None) -> dict[str, Any]:
        """Make the content of `outputs.json`, with the names wherever it has `again`. files: bytes by path."""
        own = {AGAIN: self.own} if AGAIN in outputs else {}
        names = list(dict.fromkeys([*self.own, *self.upstream]))
        return {"outputs": {**outputs, **own}, "made_from": dict(made_from), "files": dict(files or {}),
                **({AGAIN: names} if names else {})}


def parts_to_retry(done: Mapping[str, Any] | None) -> list[str]:
    """List the parts that the next run of a finished step retries; `done` is its `outputs.json`."""
    names = (done or {}).get(AGAIN)
    return [str(each) for each in names] if isinstance(names, list) else []


def retry_after_success(run: Mapping[str, Any], config: Config, outputs: Mapping[str, Any]) -> Retry:
    """List the parts to retry after a run that went well. `run`: run.json at its start."""
    own, runs = _counted(run, outputs)
    upstream = [path for _, path in config.paths_with(Role.UPSTREAM)]
    return Retry(own, [each for path in upstream for each in parts_to_retry(read_done(path))], runs)


def retry_after_failure(run: Mapping[str, Any], before: Mapping[str, Any]) -> Retry:
    """List the parts to retry after a run that failed: those of `before`, the `outputs.json` that it found."""
    own, runs = _counted(run, before["outputs"])
    known = {str(each) for each in before["outputs"].get(AGAIN, ())}
    return Retry(own, [each for each in parts_to_retry(before) if each not in known], runs)


def _counted(run: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[list[str], int]:
    names = [str(each) for each in outputs.get(AGAIN, ())]
    runs = int(run.get(TRIED, 0)) + bool(names)
    return ([] if runs >= _MOST_RUNS else names), runs
