"""`evaluate.follow`: exports are evaluated while the training goes on, as they would be afterwards."""

import os
import signal
from pathlib import Path

import pytest

from argosy.core.store.files import read_record
from tests.command_line import ARGOSY, Argosy
from tests.processes import ROOT, until
from tests.warm import Popen

pytestmark = pytest.mark.usefixtures("warm")
RUN = ["run", "--preset", "tiny", "stages=[clean,tokenizer,tokenize,pretrain,evaluate,compare]",
       "pretrain.tokens=102400", "pretrain.exports=[0.1,0.6,1.0]",
       "evaluate.suites={benchmark: all, heldout: all, probes: none}"]


def _evaluations(store: Path, export: str) -> list[Path]:
    found = [path for path in store.glob(f"evaluate-pretrain-{export}-*") if (path / "outputs.json").is_file()]
    return sorted(found)


def _results(path: Path) -> list[bytes]:
    return [(path / name).read_bytes() for name in ("results.json", "items.parquet")]


def test_an_export_is_evaluated_while_training_goes_on(tmp_path: Path, argosy: Argosy) -> None:
    store = tmp_path / "runs"
    where = ["--store", str(store)]
    training = Popen([*ARGOSY, *RUN, *where, "evaluate.follow=true"], cwd=ROOT)
    until(lambda: any(store.glob("pretrain-*/checkpoints/p010")), 240)
    [trained] = store.glob("pretrain-*")
    pid = int(read_record(trained / "run.json")["pid"])
    os.kill(pid, signal.SIGSTOP)  # so that it has not ended, however fast it is
    try:
        until(lambda: len(_evaluations(store, "p010")) == 2, 240)
        assert not (trained / "outputs.json").exists()
        assert not _evaluations(store, "p060")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert training.wait(240) == 0
    early = {path.name: _results(path) for export in ("p010", "p060") for path in _evaluations(store, export)}
    assert len(early) == 4  # of two suites each
    assert _evaluations(store, "final")
    argosy(*RUN, *where)
    assert {name: read_record(store / name / "run.json")["attempts"] for name in early} == dict.fromkeys(early, 1)
    for path in list(store.glob("evaluate-*")):
        path.rename(tmp_path / path.name)
    argosy(*RUN, *where, "--to", "evaluate")
    assert {name: _results(store / name) for name in early} == early
    [compared] = store.glob("compare-*")
    labels = {"pretrain", "pretrain/p010", "pretrain/p060"}
    assert set(read_record(compared / "comparison.json")["checkpoints"]) == labels
    argosy("evaluate", "pretrain/p010", "--suite", "heldout", "--chat", "off", *where)  # of the same export, to compare
    [own] = store.glob("evaluate-" + "[0-9a-f]" * 12)
    assert read_record(own / "node.json")["upstream"]["checkpoint"] == [trained.name.rpartition("-")[2]]
