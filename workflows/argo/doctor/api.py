"""Does the API server answer, and is it the same time there?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from workflows.argo.doctor.check import Check, Cluster, Found

OLDEST = (1, 31)  # of Kubernetes
LITTLE_S, MUCH_S = 5.0, 30.0  # a lease of a step holds for 30 s
SYNC = "let both machines take their time from NTP"


def reachable(cluster: Cluster) -> Iterator[Found]:
    """Version."""
    found = cluster.api.ask("GET", "/version")
    version = tuple(int("".join(filter(str.isdigit, found.get(part, "0"))) or 0) for part in ("major", "minor"))
    text = f"{cluster.api.where}: Kubernetes {found.get('gitVersion', '?')}"
    if version < OLDEST:
        yield Found("warn", text, f"Argosy is tried on {'.'.join(map(str, OLDEST))} and newer")
    else:
        yield Found("ok", text)


def clock(cluster: Cluster) -> Iterator[Found]:
    """Its Date header, which has whole seconds, against this machine's clock."""
    before = time.time()
    date = cluster.api.headers("/version").get("Date")
    if not date:
        yield Found("warn", "the API server does not say its time")
        return
    yield clock_found("the API server", parsedate_to_datetime(date).timestamp(), before, time.time(), 1.0)


def clock_found(who: str, theirs: float, before: float, after: float, step: float = 0.0) -> Found:
    """`theirs` was read between `before` and `after` of this machine's clock; `step` is how coarse it is (seconds)."""
    off = max(0.0, before - step - theirs, theirs - after)
    if off <= LITTLE_S:
        return Found("ok", f"{who} and this machine agree")
    return Found("FAIL" if off > MUCH_S else "warn", f"{who} is {off:.0f} s off this machine's clock", SYNC)


CHECKS = (Check("api", reachable, 0), Check("clock", clock, 90))
