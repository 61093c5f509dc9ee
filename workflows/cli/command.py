"""The class of a command, and the options that commands share: of a store, of a run here."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from argosy.core.errors import InputError


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
    """Text at the end of its --help."""


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add --store."""
    parser.add_argument("--store", type=_directory, default=Path("runs"), metavar="DIR",
                        help="directory of the steps' directories (default: ./runs)")


def add_budget(parser: argparse.ArgumentParser) -> None:
    """Add --cores, --memory and --plain, of a run on this machine."""
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


def _directory(text: str) -> Path:
    """Parse a path that is, or may become, a directory."""
    if not text.strip() or Path(text).is_file():
        raise argparse.ArgumentTypeError(f"is {text!r}, allowed: a directory, there already or to be made")
    return Path(text).expanduser()


def positive(text: str) -> int:
    """Parse a whole number above 0."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"is {text!r}, allowed: a whole number from 1 on")
    return int(text)


def not_negative(text: str) -> int:
    """Parse a whole number from 0 on."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"is {text!r}, allowed: a whole number from 0 on")
    return int(text)


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
