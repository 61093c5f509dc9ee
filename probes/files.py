"""Files that a probe names, where a user keeps them; one that is absent is named with the places looked at."""

from __future__ import annotations

import os
from pathlib import Path

from argosy.errors import InputError
from probes.probe import Scope

ENVIRONMENT = "ARGOSY_BENCHMARKS"  # a folder of benchmark data


def locate(name: str, scope: Scope, what: str) -> Path:
    """The file or folder `name`: absolute (files beside a suite are), below `data`, or below $ARGOSY_BENCHMARKS.

    Args:
        what: it holds, for the error.

    Raises:
        InputError: it is nowhere.
    """
    folders = [Path(found).expanduser() for found in (scope.data, os.environ.get(ENVIRONMENT)) if found]
    places = [Path(name).expanduser()] if Path(name).expanduser().is_absolute() else [f / name for f in folders]
    for place in places:
        if place.exists():
            return place
    looked = ", ".join(str(place) for place in places) or "neither `data` nor " + ENVIRONMENT + " is set"
    raise InputError(f"{name} ({what}) does not exist: looked at {looked}; put it beside the suite, give its absolute "
                     f"path, or set {ENVIRONMENT} to the folder that it is in")
