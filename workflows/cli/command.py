"""What a module of this package gives to the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One command of `argosy`.

    Attributes:
        name: what the user types.
        help: one line.
        order: its place in `argosy --help`.
        configure: adds its arguments to the parser.
        run: does it; returns the exit code.
        more: what its --help says at the end.
    """

    name: str
    help: str
    order: int
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    more: str = ""
