"""Whether two stores that ran the same nodes hold the same: every byte of the results, every metric once."""

import hashlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path

from argosy.core.store.lease import LEASE
from argosy.core.store.step_files import ERROR, LOG, OUTPUTS, PROGRESS, RANK_LOGS, RUN, STATE, TRACKING
from argosy.core.tracking.spool import OF_THE_RUN

# What tells of a process: times, attempts, host. The page shows times too; comparison.json has its numbers.
OF_THE_PROCESS = {RUN, LOG, PROGRESS, ERROR, LEASE, TRACKING, STATE, "report.html"}
NODE = re.compile(r".+-[0-9a-f]{12}")
# At the number of the attempt, or of so many logs since its start.
OF_ATTEMPTS = ("perf/goodput", "perf/gpu_hours", "perf/cost", "perf/straggler", "time/lost_")
Points = dict[tuple[str, str, int], list[float | None]]  # (node's digest or curve, metric, step): values
ONCE = {
    "select name, status from runs where status != 'FINISHED'": "a run that did not end well,",
    "select value, count(*) from tags where key = 'argosy.node' group by value having count(*) > 1": "runs of the node",
    "select name, count(*) from logged_models group by name, source_run_id having count(*) > 1": "models of the name"}


def differences(store: Path, untouched: Path) -> list[str]:
    """What is wrong with `store`, whose nodes are all or some of those of `untouched`; empty: nothing."""
    nodes = [path.name for path in sorted(store.iterdir()) if NODE.fullmatch(path.name)]
    found = [f"{name} is not done" for name in nodes if not (store / name / OUTPUTS).is_file()]
    found += [line for name in nodes for line in _files(store / name, untouched / name)]
    return [*found, *_metrics(store, untouched)]


def _files(ours: Path, theirs: Path) -> Iterator[str]:
    a, b = _digests(ours), _digests(theirs)
    for name in sorted({*a, *b}):
        if a.get(name) != b.get(name):
            how = "is missing" if name not in a else "is left over" if name not in b else "has other bytes"
            yield f"{ours.name}/{name} {how}"


def _digests(directory: Path) -> dict[str, str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    relative = {path.relative_to(directory): path for path in files}
    return {
        str(name): hashlib.sha256(path.read_bytes()).hexdigest() for name,
        path in relative.items() if name.parts[0] not in OF_THE_PROCESS and not fnmatchcase(name.parts[0], RANK_LOGS)}


def _metrics(store: Path, untouched: Path) -> Iterator[str]:
    ours_at, theirs_at = (sqlite3.connect(root / "mlflow.db") for root in (store, untouched))
    with closing(ours_at) as database, closing(theirs_at) as other:
        for query, what in ONCE.items():
            for name, found in database.execute(query):
                yield f"MLflow: {what} {name}: {found}"
        counts, expected = _points(database), _points(other)
    owners = {owner for owner, _, _ in counts}
    points = {*counts, *(point for point in expected if point[0] in owners)}
    for point in sorted(point for point in points if not point[1].startswith(OF_ATTEMPTS)):
        ours, theirs = counts.get(point, []), expected.get(point, [])
        if len(ours) != 1 or (ours != theirs and not point[1].startswith(OF_THE_RUN)):
            yield "MLflow: {}: {} at step {}".format(*point) + f" has the values {ours}, untouched {theirs}"


def _points(database: sqlite3.Connection) -> Points:
    rows = database.execute(
        "select tags.value, metrics.key, step, metrics.value, is_nan from metrics join tags using (run_uuid)"
        " where tags.key in ('argosy.node', 'argosy.curves')")
    found: Points = {}
    for owner, name, step, value, is_nan in rows:
        found.setdefault((owner, name, step), []).append(None if is_nan else value)
    return found
