"""Public data sets, which are beside the checkout: a test that needs one is skipped where it is absent."""

from pathlib import Path

import pytest

from benchmarks.side_by_side import shared as place_of


def shared(name: str) -> Path:
    """A folder of `shared/data`, or a file in it; skips the test where there is none."""
    if not (found := place_of(name)).exists():
        pytest.skip(f"{found} is not there: it is read from beside the checkout")
    return found
