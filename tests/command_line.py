"""`argosy` as its users type it: as a process, and in the test's own process by the fixture of tests/conftest.py."""

import sys
from typing import Protocol

from _pytest.capture import CaptureResult

ARGOSY = (sys.executable, "-c", "import sys; from workflows.cli import main; sys.exit(main())")


class Argosy(Protocol):
    """Runs a command, which ends with `code`; returns what it printed, and that alone."""

    def __call__(self, *arguments: str, code: int = 0) -> CaptureResult[str]: ...
