"""`argosy evaluate --follow`: exports are evaluated while the training goes on, as the pipeline would."""

import os
import signal
import sys
from pathlib import Path

import pytest

from argosy.core.store.files import read_record
from tests.command_line import Argosy
from tests.processes import until
from tests.warm import ROOT, Popen

pytestmark = pytest.mark.usefixtures("warm")
RUN = ["run", "--preset", "tiny", "stages=[clean,tokenizer,tokenize,pretrain,evaluate,compare]",
       "pretrain.tokens=102400", "pretrain.exports=[0.1,0.6,1.0]",
       "evaluate.suites={benchmark: all, heldout: all, probes: none}"]


def _argosy(*arguments: str) -> Popen:
    command = "import sys; from workflows.cli import main; sys.exit(main())"
    return Popen([sys.executable, "-c", command, *arguments], cwd=ROOT)


def _evaluations(store: Path, export: str) -> list[Path]:
    found = [path for path in store.glob(f"evaluate-pretrain-{export}-*") if (path / "outputs.json").is_file()]
    return sorted(found)


def _results(path: Path) -> list[bytes]:
    return [(path / name).read_bytes() for name in ("results.json", "items.parquet")]


@pytest.mark.parametrize("command", [False, True], ids=["pipeline", "command"])
def test_an_export_is_evaluated_while_training_goes_on(tmp_path: Path, argosy: Argosy, command: bool) -> None:
    store = tmp_path / "runs"
    where = ["--store", str(store)]
    training = _argosy(*RUN, *where, *(["--to", "pretrain"] if command else ["evaluate.follow=true"]))
    until(lambda: any(store.glob("pretrain-*/checkpoints/p010")), 240)
    [trained] = store.glob("pretrain-*")
    pid = int(read_record(trained / "run.json")["pid"])
    os.kill(pid, signal.SIGSTOP)  # so that it has not ended, however fast it is
    try:
        following = _argosy("evaluate", "pretrain", "--follow", *where) if command else training
        until(lambda: len(_evaluations(store, "p010")) == 2, 240)
        assert not (trained / "outputs.json").exists()
        assert not _evaluations(store, "p060")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (training.wait(240), following.wait(240)) == (0, 0)
    early = {path.name: _results(path) for export in ("p010", "p060") for path in _evaluations(store, export)}
    assert len(early) == 4  # of two suites each
    assert bool(_evaluations(store, "final")) != command  # which leaves it to the pipeline
    argosy(*RUN, *where)
    assert {name: read_record(store / name / "run.json")["attempts"] for name in early} == dict.fromkeys(early, 1)
    for path in list(store.glob("evaluate-*")):
        path.rename(tmp_path / path.name)
    argosy(*RUN, *where, "--to", "evaluate")
    assert {name: _results(store / name) for name in early} == early
    [compared] = store.glob("compare-*")
    labels = {"pretrain", "pretrain/p010", "pretrain/p060"}
    said = argosy("evaluate", "pretrain", "--follow", *where, code=2).err
    assert "all exports of pretrain on the way are evaluated already, and it is done" in said
    assert set(read_record(compared / "comparison.json")["checkpoints"]) == labels


def test_what_cannot_be_followed_is_refused(tmp_path: Path, argosy: Argosy) -> None:
    store = ["--store", str(tmp_path / "runs")]
    assert "nothing has run in" in argosy("evaluate", "pretrain", "--follow", *store, code=2).err
    argosy("run", "--preset", "tiny", "--to", "data", *store)
    said = argosy("evaluate", "anneal", "--follow", *store, code=2).err
    assert "anneal exports its final checkpoint alone: leave --follow out, or run it with more" in said
    for stage, why in (("annel", "no stage of the last run"), ("clean", "a stage that trains no model which is")):
        said = argosy("evaluate", stage, "--follow", *store, code=2).err
        assert f"'{stage}' is {why}" in said
        assert "allowed with --follow: pretrain, " in said
    assert "allowed with --follow: none" in argosy("evaluate", "pretrain", "--follow", "--suite", "core", *store,
                                                  code=2).err
