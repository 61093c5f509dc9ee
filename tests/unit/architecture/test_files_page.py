"""The page of files that steps leave is what `python docs/files.py` makes of the code."""

import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def files() -> dict[str, Any]:
    """The names of the script that makes the page."""
    return runpy.run_path(str(DOCS / "files.py"))


def test_the_page_is_up_to_date(files: dict[str, Any]) -> None:
    assert (DOCS / "files.md").read_text(encoding="utf-8") == files["page"](), "python docs/files.py writes it again"
