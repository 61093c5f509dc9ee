"""What stands beside the names at the head of the page: each benchmark's one number, and held-out text as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from argosy.comparison.compared import Pair
from argosy.comparison.kinds import HEADLINE
from argosy.comparison.rows import ALL
from argosy.comparison.table import Row
from argosy.contamination.verdict import likely

MOST = 4  # benchmarks; the others are in the table of every metric
WHOLE = f"heldout/bpb/{ALL}"


def scoreboard(rows: Sequence[Row]) -> list[Row]:
    """Headlines (of benchmarks without one, the published form) that most checkpoints have, of the most items first;
    and bits a byte of all channels together."""
    found: dict[str, Row] = {}
    for short in ("plain", HEADLINE):
        found |= {row.kind.family: row for row in rows if row.name.startswith("bench/") and row.kind.short == short}
    return [*sorted(found.values(), key=_weight)[:MOST], *(row for row in rows if row.name == WHOLE)]


def _weight(row: Row) -> tuple[int, int]:
    known = sum(cell.value is not None for cell in row.cells)
    return -known, -max((cell.contrast.tested.n for cell in row.cells if cell.contrast), default=0)


def likely_seen(pair: Pair) -> set[str]:
    """Benchmarks that one of the two has likely seen: what differs there is not knowledge, or not only."""
    return {task for e in (pair.first, pair.second) for task in likely(e.chosen.seen)}
