"""What steps could not use of their input, as their outputs say: it must not be in a log alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from argosy.step_files import read_done
from workflows.plan import PlannedNode

_SHOWN = 3  # reasons and names in a line


def kept_aside(nodes: Iterable[PlannedNode]) -> Iterator[str]:
    """A line for each finished node whose outputs have `rejected` (counts by reason) or `skipped` (files)."""
    for node in nodes:
        done = read_done(node.dir)
        outputs = done["outputs"] if done else {}
        rejected, skipped = outputs.get("rejected"), outputs.get("skipped")
        if rejected and isinstance(rejected, Mapping):
            count = sum(rejected.values())
            reasons = [f"{reason} ({n})" for reason, n in sorted(rejected.items(), key=lambda item: -item[1])]
            yield f"{node.id}: {_count(count, 'record')} kept aside in {node.dir}/rejects: {_short(reasons)}"
        if skipped and isinstance(skipped, list):
            yield f"{node.id}: {_count(len(skipped), 'file')} of unknown format left out: {_short(skipped)}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}" + ("" if number == 1 else "s")


def _short(items: list[str]) -> str:
    return ", ".join(items[:_SHOWN]) + (f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "")
