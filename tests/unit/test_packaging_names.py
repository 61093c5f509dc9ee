"""What is installed, from what, that our names are ours, and that the snippets of CONTRIBUTING.md are whole files that
work (its filter: steps/test_clean.py, its step: end_to_end/test_new_stage.py)."""

import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest

from tests.processes import ROOT, run_python

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def test_each_top_level_name_resolves_to_this_repository() -> None:
    """`evals`, `steps` and `workflows` are published packages too: one in site-packages must not win."""
    names = ["argosy", "evals", "probes", "steps", "workflows"]
    program = f"import {', '.join(names)}\nfor module in ({', '.join(names)}): print(module.__file__)"
    for arguments in ((), ("-P",)):  # with and without the current directory on the path
        found = run_python(*arguments, "-c", program)
        assert found.stdout.split() == [str(ROOT / name / "__init__.py") for name in names], found.stderr


def test_a_wheel_holds_argosy_with_its_data_and_nothing_else() -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel")
    files = [file.distribution_path for file in wheel.WheelBuilder(str(ROOT)).recurse_included_files()]
    assert {path.split("/")[0] for path in files} == {"argosy"}
    suffixes = {".py", ".yaml", ".tsv", ".txt"}
    here = {str(path.relative_to(ROOT)) for path in (ROOT / "argosy").rglob("*") if path.suffix in suffixes}
    assert here <= set(files)


def test_the_lock_is_of_what_pyproject_asks_for() -> None:
    project = PYPROJECT["project"]
    locked = dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", LOCK, re.MULTILINE))
    normal = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in locked.items()}
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        name, pinned = re.fullmatch(r"([A-Za-z0-9_.-]+)(?:==(.+)|[<>].*)?", requirement).groups()  # type: ignore[union-attr]
        version = normal.get(re.sub(r"[-_.]+", "-", name).lower())
        assert version is not None, f"{name} is not in requirements.lock: make lock"
        assert pinned in (None, version), f"{name}: {pinned} in pyproject.toml, {version} in requirements.lock"


def test_setup_refuses_another_python_clearly(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo Python 3.9.0 && exit 0\nexit 1\n")
    python.chmod(0o755)
    done = subprocess.run([ROOT / ".ci" / "setup"], env={"PYTHON": str(python), "PATH": "/usr/bin:/bin"},
                          capture_output=True, text=True)
    assert done.returncode == 2
    assert "argosy needs Python 3.11, 3.12 or 3.13; found: Python 3.9.0" in done.stderr
    assert PYPROJECT["project"]["requires-python"].startswith(">=3.11,<3.14")
    assert "make setup PYTHON=" in done.stderr


def test_make_targets_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    mentioned = set(re.findall(r"^make ([a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"demo", "test"} <= mentioned <= targets
    assert {"setup", "check", "crash"} <= targets


def test_the_links_of_the_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_page_is_on_the_map() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    named = re.findall(r"\]\(([a-z-]+\.md)\)", (ROOT / "docs/README.md").read_text(encoding="utf-8"))
    assert sorted(named) == sorted(pages)  # each once


def load(marker: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The snippet that holds `marker`, as a module."""
    [source] = [block for block in BLOCKS if marker in block]
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


def test_the_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    from evals.chain import Chain
    from evals.items import Item
    from evals.variants import NotApplicable

    module = load("ReversedOptions", "reversed_options", monkeypatch)
    item = Item(id="1", lang="en", question="?", choices=("a", "b", "c", "d"), answer=0)
    chain = Chain("reversed", (module.ReversedOptions(),))
    [draft] = chain.drafts(item, 0)
    assert (draft.choices, draft.gold, draft.origin) == (("d", "c", "b", "a"), 3, (3, 2, 1, 0))
    assert draft.render(None).prompt.startswith("?\nA. d B. c C. b D. a")
    last = Item(id="2", lang="en", question="?", choices=("a", "b", "All of the above"), answer=2)
    with pytest.raises(NotApplicable):
        chain.drafts(last, 0)


def test_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    module = load("(Probe)", "certainty", monkeypatch)
    model = SimpleNamespace(text_loglikelihood=lambda texts: [SimpleNamespace(logprob=0.0, tokens=3) for _ in texts])
    found = module.Certainty(name="c", texts=("a", "b")).measure(model, SimpleNamespace(limit=None))
    assert found.measures["probability"].value == 1.0
    assert [row["id"] for row in found.rows] == ["0", "1"]
