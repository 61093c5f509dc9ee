"""The import rules cover every module, and catch what they are for."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("argosy", "steps", "evals", "probes", "workflows")
TYPING = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our packages and pyproject.toml with every layer, and files that use all that the rules allow."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "pyproject.toml", root)
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [(c, name) for each in contracts for c in each.get("containers", ()) for name in each["layers"]]
    layers = [(container.replace(".", "/"), name) for container, names in layers for name in names.split(" | ")]
    for package in (*PACKAGES, *("/".join(layer) for layer in layers)):
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").touch()
    good = {
        "argosy/tracking/mlflow/send.py": "def send():\n    import mlflow\n    return mlflow\n",
        "argosy/tracking/mlflow/__init__.py": "",
        "argosy/step/good.py": "import argosy.tracking, argosy.store\n",
        "workflows/cli/good.py": "import hera, steps.good, evals, probes, argosy.step, workflows.plan\n",
        "steps/good.py": "import evals, probes, argosy.step\n",
    }
    for file, text in good.items():
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text(text)
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
        ("steps/new.py", "def f():\n    import mlflow", "only argosy.tracking.mlflow knows mlflow"),
        ("argosy/step/new.py", "import mlflow", "only argosy.tracking.mlflow knows mlflow"),
        ("argosy/tracking/new.py", "import mlflow", "only argosy.tracking.mlflow knows mlflow"),
        ("steps/new.py", "import hera", "only workflows knows hera"),
        ("argosy/step/new.py", "import evals", "imports point one way"),
        ("evals/new.py", "import probes", "imports point one way"),
        ("probes/new.py", "import steps.good", "imports point one way"),
        ("argosy/store/new.py", "def f():\n    import argosy.judging", "layers of argosy"),
        ("argosy/data/new.py", f"{TYPING}\n    import argosy.text", "layers of argosy"),
        ("argosy/new.py", "", "layers of argosy"),
        ("workflows/graph/new.py", "import workflows.argo", "layers of workflows"),
        ("argosy/tracking/new.py", "def f():\n    import argosy.tracking.again", "no circles"),
        ("evals/new.py", f"{TYPING}\n    import evals.again", "no circles"),
    ],
)
def test_what_is_not_is_caught(copy: Path, file: str, line: str, contract: str) -> None:
    path, again = copy / file, copy / file.replace("new", "again")
    path.write_text(line + "\n")
    if "again" in line:
        again.write_text(f"import {file[:-3].replace('/', '.')}\n")
    try:
        assert broken(copy) == {contract}
    finally:
        path.unlink()
        again.unlink(missing_ok=True)
