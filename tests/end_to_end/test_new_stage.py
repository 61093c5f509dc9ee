"""The step of CONTRIBUTING.md is one new file: a stage behind a real `clean`, in plan, run and report."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from argosy.core.store.step_files import read_outputs
from argosy.corpus.cleaning.kept import KeptCorpus
from argosy.evidence.compare.changes import compare
from argosy.evidence.compare.checkpoints import read_checkpoints
from argosy.evidence.report.pipeline import read_stages
from argosy.evidence.report.report import Page, render_report
from tests.command_line import ARGOSY
from tests.processes import ROOT


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of our code, with one more file in `steps`."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    [source] = [block for block in blocks if "count_words" in block]
    for package in ("argosy", "evals", "probes", "steps", "workflows"):
        shutil.copytree(ROOT / package, tmp_path / package)
    (tmp_path / "steps" / "count_words.py").write_text(source)
    return tmp_path


def argosy(house: Path, *arguments: str) -> str:
    done = subprocess.run([*ARGOSY, *arguments], cwd=house, text=True, capture_output=True,
                          env=os.environ | {"PYTHONPATH": str(house)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_step_of_contributing_is_a_stage_with_a_metric_in_the_report(house: Path) -> None:
    store = ("--preset", "tiny", "--store", str(house / "runs"))
    assert re.search(r"^count_words +run", argosy(house, "plan", *store), re.MULTILINE)
    assert "count_words" not in argosy(house, "plan", *store, "count_words=null")
    assert "count_words" not in argosy(house, "plan", *store, "stages=data")  # which has no `clean`
    argosy(house, "run", *store, "stages=[clean,count_words]")
    [counted] = (house / "runs").glob("count_words-*")
    [clean], scored = (house / "runs").glob("clean-*"), sorted(map(str, (house / "runs").glob("score-*")))
    words: dict[str, int] = {}
    for document in KeptCorpus.of(str(clean), scored).documents():
        words[document.channel] = words.get(document.channel, 0) + len(document.text.split())
    assert words
    assert read_outputs(counted)["words"] == words
    page = render_report(Page(compare(read_checkpoints([], [])), house, stages=read_stages([counted])))
    cells = re.findall(r"<td>(words/\w+)</td><td class=\"n\">([\d,]+)</td><td>words</td>", page)
    assert {name.removeprefix("words/"): int(count.replace(",", "")) for name, count in cells} == words
