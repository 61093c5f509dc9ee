"""The import rules cover every module, and catch what they are for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("argosy", "steps", "evals", "probes", "workflows")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our packages and pyproject.toml, and files that use all that the rules allow."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "pyproject.toml", root)
    for package in PACKAGES:
        (root / package).mkdir()
        (root / package / "__init__.py").touch()
    (root / "argosy" / "tracking").mkdir()
    (root / "argosy" / "tracking" / "__init__.py").write_text("import argosy.tracking.send\n")
    (root / "argosy" / "tracking" / "send.py").write_text("def send():\n    import mlflow\n    return mlflow\n")
    (root / "argosy" / "good.py").write_text("import argosy.tracking\n")
    (root / "workflows" / "good.py").write_text("import hera, steps.good, evals, probes, argosy.good\n")
    (root / "steps" / "good.py").write_text("import evals, probes, argosy.good\n")
    return root


def broken(root: Path) -> set[str]:
    """Names of the contracts that import-linter finds broken."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"], cwd=root, env={"PYTHONPATH": str(root)}, capture_output=True,
        text=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert any("Contracts:" in line for line in lines), done.stdout + done.stderr
    return {line.partition(" BROKEN")[0] for line in lines if " BROKEN" in line}


def test_what_is_allowed_passes(copy: Path) -> None:
    assert broken(copy) == set()


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("steps/new.py", "import steps.good", "a step never imports a step"),
        ("steps/new.py", "def f():\n    import mlflow", "only argosy.tracking knows mlflow"),
        ("argosy/new.py", "import mlflow", "only argosy.tracking knows mlflow"),
        ("steps/new.py", "import hera", "only workflows knows hera"),
        ("argosy/new.py", "import evals", "imports point one way"),
        ("evals/new.py", "import probes", "imports point one way"),
        ("probes/new.py", "import steps.good", "imports point one way"),
    ],
)
def test_what_is_not_is_caught(copy: Path, file: str, line: str, contract: str) -> None:
    path = copy / file
    path.write_text(line + "\n")
    try:
        assert broken(copy) == {contract}
    finally:
        path.unlink()
