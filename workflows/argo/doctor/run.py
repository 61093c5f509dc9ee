"""Run all checks, those that are cheap side by side."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as OutOfTime

import workflows.argo.doctor as package
from workflows.argo.client_http import ApiError
from workflows.argo.doctor.check import Check, Cluster, Found

AT_ONCE = 6


def checks() -> list[Check]:
    """Every check of this package, in the order in which they are told."""
    names = [each.name for each in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return sorted((check for module in modules for check in getattr(module, "CHECKS", ())), key=lambda each: each.order)


def examine(cluster: Cluster) -> Iterator[tuple[Check, Found]]:
    """What each check found. The first says whether the API answers; where it does not, nothing else is asked."""
    first, *others = (each for each in checks() if cluster.deep or not each.pods)
    found = look(first, cluster)
    yield from ((first, each) for each in found)
    if any(each.state == "FAIL" for each in found):
        return
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="doctor")
    try:
        given = [(check, pool.submit(look, check, cluster)) for check in others]
        for check, future in given:
            yield from ((check, each) for each in _in_time(check, future))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # what hangs ends with its own timeouts


def look(check: Check, cluster: Cluster) -> list[Found]:
    """What `check` finds; what it may not see is a warning, what breaks is a failure."""
    try:
        return list(check.look(cluster))
    except ApiError as error:
        if error.status in (401, 403):
            return [Found("warn", f"cannot be looked at: {error}", "run it as somebody who may read this")]
        return [Found("FAIL", str(error), "see what the API server says of it")]


def _in_time(check: Check, future: Future[list[Found]]) -> list[Found]:
    try:
        return future.result(timeout=check.limit_s)
    except OutOfTime:
        return [Found("FAIL", f"no answer in {check.limit_s:.0f} s", "see whether the API server is overloaded")]
