"""Files that a suite names, where a user keeps them; one that is absent is named with the places looked at."""

from __future__ import annotations

import os
import re
from pathlib import Path

from argosy.errors import InputError
from argosy.evaluation.suite_paths import ROOT

_FOLDERS = re.compile(r"(?<![\w/:])/(?:[^\s/,;:()'\"]+/)+")


class NoFileError(InputError):
    """What a suite names is not there."""


def locate(name: str, data: Path | str | None, what: str) -> Path:
    """The file or folder `name`: absolute (files beside a suite are), below `data`, or below $ARGOSY_BENCHMARKS.

    Args:
        what: it is, for the error.

    Raises:
        NoFileError: it is nowhere.
    """
    given = Path(name).expanduser()
    folders = [Path(found).expanduser() for found in (data, os.environ.get(ROOT)) if found]
    places = [given] if given.is_absolute() else [folder / given for folder in folders]
    for place in places:
        if place.exists():
            return place
    looked = f"looked at {' and '.join(map(str, places))}" if places else f"neither `data` nor {ROOT} is set"
    raise NoFileError(f"{name} ({what}) does not exist: {looked}; put it beside the suite, give its absolute "
                      f"path, or set {ROOT} to the folder that it is in")


def without_folders(error: Exception) -> str:
    """What an error says, files without their folders: results of two machines are equal."""
    return _FOLDERS.sub("", str(error))
