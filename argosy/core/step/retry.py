"""Retries: the failed parts of a finished step, its own and its upstream steps', that the next run computes again."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from argosy.core.config.schema import Config, Role
from argosy.core.store.step_files import read_done

AGAIN = "again"  # key of outputs.json: names of failed parts that may pass another time
TRIED = "tried"  # key of run.json: the runs that ended by themselves with such parts; one that was killed is none
RETRY_FAILED = "already done; retrying its failed parts failed"
_MOST_RUNS = 3


class Retry(NamedTuple):
    """Names of the parts that the next run retries; `runs` so far that retried them, for run.json."""

    own: list[str]
    upstream: list[str]
    runs: int

    def record(
        self, outputs: Mapping[str, Any], made_from: Mapping[str, Any], files: Mapping[str, int] | None
    ) -> dict[str, Any]:
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
