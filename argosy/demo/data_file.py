"""Data files of this package."""

from functools import cache
from importlib import resources
from typing import Any

import yaml


@cache
def read_yaml(path: str) -> Any:
    """The parsed YAML at `path` below argosy/demo. The object is shared: do not change it."""
    return yaml.safe_load((resources.files("argosy.demo") / path).read_text(encoding="utf-8"))
