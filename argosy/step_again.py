"""What a finished step tries again: parts that failed and may pass, of its own or of what it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from argosy.config import Config, Role
from argosy.step_files import AGAIN, read_done, to_do_again

TRIED_AT_MOST = 3  # runs that ended by themselves, in which a step tries what failed in it and may pass
TRIED = "tried"  # key of run.json: how many there were; one that was killed is none


class Again(NamedTuple):
    """The names that the next run tries; tried: for run.json."""

    own: list[str]
    upstream: list[str]
    tried: int

    def record(self, outputs: Mapping[str, Any], made_from: Mapping[str, Any]) -> dict[str, Any]:
        """What `outputs.json` says: the same names wherever it has `again`."""
        own = {AGAIN: self.own} if AGAIN in outputs else {}
        names = list(dict.fromkeys([*self.own, *self.upstream]))
        return {"outputs": {**outputs, **own}, "made_from": dict(made_from), **({AGAIN: names} if names else {})}


def after_success(run: Mapping[str, Any], config: Config, outputs: Mapping[str, Any]) -> Again:
    """Of a run that has just ended; its own no more once it was tried often enough. `run`: run.json as it began."""
    own, tried = _counted(run, outputs)
    return Again(own, [each for path in _upstream(config) for each in to_do_again(read_done(path))], tried)


def after_failure(run: Mapping[str, Any], before: Mapping[str, Any]) -> Again:
    """Of a run that tried again and failed as a whole: what it has stays, and what it has not read stays to do.
    `before`: the `outputs.json` that it found."""
    own, tried = _counted(run, before["outputs"])
    known = {str(each) for each in before["outputs"].get(AGAIN, ())}
    return Again(own, [each for each in to_do_again(before) if each not in known], tried)


def _counted(run: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[list[str], int]:
    names = [str(each) for each in outputs.get(AGAIN, ())]
    tried = int(run.get(TRIED, 0)) + bool(names)
    return ([] if tried >= TRIED_AT_MOST else names), tried


def _upstream(config: Config) -> Iterator[str]:
    """The directories of steps that a config names."""
    for name in config.fields_with(Role.UPSTREAM):
        value = getattr(config, name)
        yield from filter(None, [value] if isinstance(value, str) else value)
