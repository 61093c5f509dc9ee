"""The import rules cover every module, and catch what they are for."""

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
    good = {"argosy/core/tracking/mlflow/send.py": "def send():\n    import mlflow\n    return mlflow\n",
            "argosy/core/tracking/mlflow/__init__.py": "",
            "argosy/core/step/good.py": "import argosy.core.tracking, argosy.core.store\n",
            "workflows/cli/good.py": "import hera, steps.good, evals, probes, argosy.core.step, workflows.plan\n",
            "steps/good.py": "import evals, probes, argosy.core.step\n"}
    for file, text in good.items():
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text(text)
    return root


def broken(root: Path) -> set[str]:
    """Names of the contracts that import-linter finds broken."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", program, "--no-cache"], cwd=root, env={"PYTHONPATH": str(root)},
                          capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert any("Contracts:" in line for line in lines), done.stdout + done.stderr
    return {line.partition(" BROKEN")[0] for line in lines if " BROKEN" in line}


def test_what_is_allowed_passes(copy: Path) -> None:
    assert broken(copy) == set()


def test_what_is_not_is_caught(copy: Path) -> None:
    """One breach of each contract, inside functions and under TYPE_CHECKING too."""
    breaches = {"a step never imports a step": ("steps/new.py", "import steps.good"),
                "only argosy.core.tracking.mlflow knows mlflow": ("argosy/core/tracking/new.py",
                                                                  "def f():\n    import mlflow"),
                "only workflows knows hera": ("steps/other.py", "import hera"),
                "imports point one way": ("argosy/core/step/new.py", "import evals"),
                "layers of core": ("argosy/core/config/new.py", "import argosy.core.store"),
                "layers of argosy": ("argosy/core/step/up.py", f"{TYPING}\n    import argosy.corpus"),
                "layers of model": ("argosy/model/infer/new.py", "import argosy.model.train"),
                "a step plans nothing": ("steps/third.py", "def f():\n    import argosy.planning"),
                "layers of evidence": ("argosy/evidence/results/new.py", "import argosy.evidence.compare"),
                "layers of corpus": ("argosy/corpus/data/new.py", f"{TYPING}\n    import argosy.corpus.text"),
                "layers of workflows": ("workflows/graph/new.py", "import workflows.argo"),
                "no circles": ("evals/new.py", f"{TYPING}\n    import evals.again")}
    (copy / "evals/again.py").write_text("def f():\n    import evals.new\n")
    for file, line in breaches.values():
        (copy / file).write_text(line + "\n")
    assert broken(copy) == set(breaches)
