"""Faults of a rank, planted in the process that starts it: a rank of a warm process is a fork of that one."""

import os
import runpy
import signal
import time
from collections.abc import Callable
from importlib import import_module
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any

_LONG_S, _SHORT_S = 10**6, 0.03


def run(module: str, place: str, rank: int, at: int, fault: str, once: str) -> None:
    """Run a module in which `rank` has a fault before call `at` (0, 1, ...) of the function at `place`
    (`module:Class.name`), the first time alone: `once` is the file that says so. At -1 it has it before each call."""
    owner, _, name = place.partition(":")[2].rpartition(".")
    within: Any = attrgetter(owner)(import_module(place.partition(":")[0]))
    whole, calls = getattr(within, name), count()

    def faulty(*given: Any, **named: Any) -> Any:
        if int(os.environ.get("RANK", "-1")) == rank and at in (-1, next(calls)) and not Path(once).exists():
            if at >= 0:
                Path(once).touch()
            FAULTS[fault](*given)
        return whole(*given, **named)

    setattr(within, name, faulty)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def asleep(*_: Any) -> None:
    time.sleep(_LONG_S)


def short(*_: Any) -> None:
    time.sleep(_SHORT_S)


def busy(*_: Any) -> None:
    end = time.monotonic() + _LONG_S
    while time.monotonic() < end:
        pass


def elsewhere(*_: Any) -> None:
    """Enter a collective that no other rank enters."""
    import torch.distributed as dist

    dist.barrier()


def stopped(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def flip(copies: Any, *_: Any) -> None:
    """Lose a bit of a weight in this process's memory."""
    import torch

    from argosy.model.train.parallelism import local_part

    part = next(local_part(each.detach()) for name, each in copies._engine._parameters if "down_proj" in name)
    part.view(torch.int32)[0, 3] ^= 1 << 18


def wrong(*_: Any) -> None:
    """Compute three products wrong: queries and keys of a first position decide nothing, as it sees itself alone."""
    _wrong_products(3)


def broken(*_: Any) -> None:
    """Compute all products wrong from now on, as far as the first number of each goes."""
    _wrong_products(_LONG_S)


def _wrong_products(left: int) -> None:
    from torch.nn import functional

    whole = functional.linear

    def linear(*given: Any) -> Any:
        nonlocal left
        product = whole(*given)
        if left:
            left -= 1
            product = product.clone()
            product.view(-1)[0] *= 1.01
        return product

    setattr(functional, "linear", linear)  # noqa: B010  its type is narrower


FAULTS: dict[str, Callable[..., None]] = {
    each.__name__: each for each in (asleep, short, busy, elsewhere, stopped, flip, wrong, broken)}
