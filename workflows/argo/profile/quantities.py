"""Values in a profile: quantities of Kubernetes, and keys that are called as credentials are."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

from argosy.core.errors import InputError

_UNITS = {"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
          "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkKMGTPE]?i?)")

_WORDS = {"secret", "password", "passwd", "token", "credential", "credentials", "sas"}
_PAIRS = ("access_key", "account_key", "api_key", "private_key", "connection_string",
          "accesskey", "secretkey")  # as engines of Fluid call them
_FILES = ("_file", "_path", "_dir")  # where they are, not they themselves
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
FROM_SECRETS = (
    "credentials come from a Secret that defaults.secrets names, as environment variables "
    "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, MLFLOW_TRACKING_USERNAME, ...)"
)


def secret_names(given: Any, at: str = "") -> Iterator[str]:
    """Yield paths of keys, at any depth, named as credentials are; empty and boolean values hold none."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            path = f"{at}.{key}" if at else str(key)
            if isinstance(value, (Mapping, list, tuple)):
                yield from secret_names(value, path)
                continue
            name = re.sub(r"[^a-z0-9]+", "_", str(key).lower())
            named = name == "key" or not _WORDS.isdisjoint(name.split("_")) or any(pair in name for pair in _PAIRS)
            if value not in (None, "") and not isinstance(value, bool) and named and not name.endswith(_FILES):
                yield path
    elif isinstance(given, Sequence) and not isinstance(given, str):
        for number, value in enumerate(given):
            yield from secret_names(value, f"{at}[{number}]")


def has_password(uri: str) -> bool:
    """Tell whether a URI names a user: s3://KEY:SECRET@bucket, https://user:password@host."""
    return "@" in urlsplit(uri).netloc


def amount(quantity: str) -> float:
    """Convert a Kubernetes quantity into cores, bytes or a count. Raises InputError: it is none."""
    found = _QUANTITY.fullmatch(quantity)
    if found is None or found[2] not in _UNITS:
        raise InputError(f"{quantity!r} is not a quantity of Kubernetes, such as 500m, 2, 512Mi or 1.5G")
    return float(found[1]) * _UNITS[found[2]]
