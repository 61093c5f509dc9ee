"""`argosy` as its users type it, in the test's own process: the fixture `argosy` of tests/conftest.py."""

from typing import Protocol

from _pytest.capture import CaptureResult


class Argosy(Protocol):
    """Runs a command, which ends with `code`; returns what it printed, and that alone."""

    def __call__(self, *arguments: str, code: int = 0) -> CaptureResult[str]: ...
