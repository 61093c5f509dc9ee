"""`python -m steps.compare` as the pipeline runs it, and `argosy compare` on the same store."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report_fixtures import DEMO, Store, make_store

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return make_store(tmp_path_factory.mktemp("store"), DEMO[2:], items=60)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return _python("-m", *arguments)


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    wide = {**os.environ, "COLUMNS": "160"}
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, env=wide)


def test_it_writes_both_files_and_is_done_when_run_again(store: Store) -> None:
    out = store.root / "compare"
    first = _run("steps.compare", "--config", json.dumps(store.config()), "--out", str(out))
    assert first.returncode == 0, first.stderr
    assert "twin has likely seen the test" in first.stdout
    done = (out / "outputs.json").read_bytes()
    assert json.loads(done)["outputs"]["seen"] == {"facts": ["twin"]}
    assert (out / "report.html").stat().st_size > 50_000
    again = _run("steps.compare", "--config", json.dumps(store.config()), "--out", str(out))
    assert again.returncode == 0
    assert (out / "outputs.json").read_bytes() == done


def test_nothing_to_compare_is_an_input_error(tmp_path: Path) -> None:
    refused = _run("steps.compare", "--config", "{}", "--out", str(tmp_path / "out"))
    assert refused.returncode == 2
    assert "nothing to compare" in refused.stderr
