"""Names as MLflow allows them."""

from __future__ import annotations

import hashlib
import posixpath
import re

_NOT_ALLOWED = re.compile(r"[^/\w.\- :]")  # mlflow.utils.validation; \w has the letters of every script
_NOT_IN_MODEL = re.compile(r"[/:.%\"']")
LONGEST = 250


def metric_name(name: str) -> str:
    """`name` as a metric, param or tag key: itself where it is allowed.

    Otherwise what is not allowed becomes `_`, and a hash of the name follows, so that two names stay two.
    """
    clean = posixpath.normpath(_NOT_ALLOWED.sub("_", name)).lstrip("/")
    while clean == ".." or clean.startswith("../"):
        clean = clean[3:]
    if clean == name and len(name) <= LONGEST and name not in ("", "."):
        return name
    suffix = "-" + hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return clean.strip(".")[: LONGEST - len(suffix)] + suffix


def model_name(name: str) -> str:
    """`name` as the name of a LoggedModel."""
    return _NOT_IN_MODEL.sub("_", name)


def quoted(value: str) -> str:
    """`value` in a filter of MLflow's search, which has no way to escape a quote."""
    return f'"{value}"' if "'" in value else f"'{value}'"
