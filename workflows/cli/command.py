"""The class of a command, and the options that commands share: of a store, of a run here."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from argosy.core.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class Command:
    """One command of `argosy`."""

    name: str
    """Name that the user types."""
    help: str
    """One line."""
    order: int
    """Its place in `argosy --help`."""
    configure: Callable[[argparse.ArgumentParser], None]
    """Adds its arguments to the parser."""
    run: Callable[[argparse.Namespace], int]
    """Does it; returns the exit code."""
    more: str = ""
    """Text at the end of its --help that other commands share."""


def checked(convert: Callable[[str], T], allowed: str, holds: Callable[[T], bool]) -> Callable[[str], T]:
    """Make the type of an option: its value is converted, and refused in the words `allowed` where it does not hold."""

    def parse(text: str) -> T:
        with suppress(ValueError):
            if text.strip() and holds(value := convert(text)):
                return value
        raise argparse.ArgumentTypeError(f"is {text!r}, allowed: {allowed}")

    return parse


def user_path(text: str) -> Path:
    """Read a path, which may begin with ~."""
    return Path(text).expanduser()


page_file = checked(user_path, "a file to be written, in a directory that is there",
                    lambda path: not path.is_dir() and path.absolute().parent.is_dir())
positive = checked(int, "a whole number from 1 on", lambda number: number >= 1)
not_negative = checked(int, "a whole number from 0 on", lambda number: number >= 0)


def add_store(parser: argparse.ArgumentParser) -> None:
    directory = checked(user_path, "a directory, there already or to be made", lambda path: not path.is_file())
    parser.add_argument("--store", type=directory, default=Path("runs"), metavar="DIR",
                        help="directory of the steps' directories (default: ./runs)")


def add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cores", type=positive, default=0, metavar="N",
                        help="cores for all steps together (default: all)")
    parser.add_argument("--memory", type=memory, default=0.0, metavar="SIZE",
                        help="memory for all steps together: 6 or 6.5 (GB), 512MB (default: 80 %% of the machine's)")
    parser.add_argument("--plain", action="store_true", help="print lines instead of bars")


@contextmanager
def as_typed(names: Mapping[str, str]) -> Iterator[None]:
    """Name the options that the user typed where an error names the fields that they set. `names`: option by field."""
    try:
        yield
    except InputError as error:
        text = str(error)
        for field, option in names.items():
            text = text.replace(field, option)
        raise InputError(text) from None


def memory(text: str) -> float:
    """Parse GB (10^9 bytes): `6`, `6.5`, `6GB`, `512MB`, `6GiB`."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+) *(?:([kmgt])(i?)b?)?", text.strip(), re.IGNORECASE)
    size = 0.0
    if found:
        unit = "kmgt".index((found[2] or "g").lower()) + 1
        size = float(found[1]) * (1024 if found[3] else 1000) ** unit / 1e9
    if size <= 0:
        raise argparse.ArgumentTypeError(f"is {text!r}, allowed: a size above 0, such as 6, 6.5, 6GB or 512MB")
    return size
