"""Requests to an object store: tried again with back-off, and clear errors that name URI and operation."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from argosy.errors import InputError, StepError

T = TypeVar("T")
ATTEMPTS = 6
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 20.0
_FINAL = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
_OURS = (TypeError, AttributeError, NameError, LookupError, AssertionError)  # mistakes of a program, not of a network
_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound")


class RemoteError(StepError):
    """The object store failed for longer than was waited for; the next attempt of the pod may have more luck."""

    exit_code = 75  # EX_TEMPFAIL: the pod is tried again


class Sizes(OSError):
    """What arrived is longer or shorter than what was sent."""


def attempt(operation: str, uri: str, call: Callable[[], T], pause: Callable[[float], None] = time.sleep) -> T:
    """Call until it succeeds; FileNotFoundError and FileExistsError are answers and go through.

    Raises:
        InputError: rights or credentials are wrong.
        RemoteError: it failed ATTEMPTS times.
    """
    for number in range(ATTEMPTS):
        try:
            return call()
        except (*_FINAL, *_OURS):
            raise
        except Exception as error:  # each file system has its own; what is no answer is worth another attempt
            if isinstance(error, PermissionError) or type(error).__name__ in _CREDENTIALS:
                raise InputError(
                    f"{operation} {uri}: {_line(error)}; give the pods credentials that may read, write, list and "
                    "delete there, in a Secret that the profile names in defaults.secrets"
                ) from error
            if number + 1 == ATTEMPTS:
                raise RemoteError(f"{operation} {uri} failed {ATTEMPTS} times, last: {_line(error)}") from error
            longest = min(FIRST_PAUSE_S * 2**number, LONGEST_PAUSE_S)
            pause(longest * random.uniform(0.5, 1))  # not all pods at once
    raise AssertionError("unreachable")


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
