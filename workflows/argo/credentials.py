"""Credentials do not belong in a profile, which everybody who may look can read: where there are some."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

_WORDS = {"secret", "password", "passwd", "token", "credential", "credentials", "sas"}
_PAIRS = ("access_key", "account_key", "api_key", "private_key", "connection_string")
_FILES = ("_file", "_path", "_dir")  # where they are, not they themselves


def secret_names(given: Any, at: str = "") -> Iterator[str]:
    """Paths of keys, at any depth, that are called as credentials are; values that are empty or boolean hold none."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            path = f"{at}.{key}" if at else str(key)
            if isinstance(value, (Mapping, list, tuple)):
                yield from secret_names(value, path)
            elif value not in (None, "") and not isinstance(value, bool) and _is_secret(str(key)):
                yield path
    elif isinstance(given, Sequence) and not isinstance(given, str):
        for number, value in enumerate(given):
            yield from secret_names(value, f"{at}[{number}]")


def _is_secret(key: str) -> bool:
    name = re.sub(r"[^a-z0-9]+", "_", key.lower())
    if name.endswith(_FILES):
        return False
    return name == "key" or not _WORDS.isdisjoint(name.split("_")) or any(pair in name for pair in _PAIRS)


def has_password(uri: str) -> bool:
    """Whether a URI names a user: s3://KEY:SECRET@bucket, https://user:password@host."""
    return "@" in urlsplit(uri).netloc
