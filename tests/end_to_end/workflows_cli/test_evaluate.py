"""`argosy evaluate`: any model directory, the core suite, published files, in one command."""

import json
from pathlib import Path

import pytest

from argosy.core.store.files import make_directory, write_json
from argosy.core.tracking.spool import owner_of
from tests.benchmark_files import stems, write_files
from tests.command_line import Argosy
from tests.evaluation_fixtures import make_items, save_checkpoint


def write_benchmarks(root: Path) -> None:
    """OpenBookQA and C-Eval of made-up items; the other benchmarks of the suite are not there."""
    english = [item for item in make_items(80) if item.lang == "en"]
    chinese = [item for item in make_items(80) if item.lang == "zh"]
    rows = [["id", "question", *"ABCD", "answer"],
            *([str(n), i.question, *i.choices, "ABCD"[i.answer]] for n, i in enumerate(chinese))]  # fmt: skip
    files = {"openbookqa/Data/Main/test.jsonl": stems(english), "ceval/val/law_val.csv": rows}
    write_files(root, files)


def test_a_model_directory_is_evaluated_with_the_core_suite(tmp_path: Path, argosy: Argosy,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_BENCHMARKS", "")  # the command sets it; it is put back after the test
    save_checkpoint(tmp_path / "model")
    (tmp_path / "model/argosy.json").unlink()
    write_benchmarks(tmp_path / "data")
    command = ["evaluate", str(tmp_path / "model"), "--data", str(tmp_path / "data"), "--store", str(tmp_path / "runs"),
               "--threads", "1"]  # fmt: skip
    write_json(make_directory(tmp_path / "runs") / "last_run.json", {"config": {"name": "mine", "seed": 0}})
    printed = argosy(*command).out
    directory = Path(printed.strip().splitlines()[-1].rpartition(": ")[2])
    owner = owner_of(directory / "tracking/spool.jsonl")
    assert (owner.line, owner.name) == ("mine", "evaluate-model-core")  # experiment and run in MLflow
    results = json.loads((directory / "results.json").read_text())
    value = results["metrics"]["bench/openbookqa/plain/acc"]
    assert any(line.split()[:2] == ["openbookqa/plain/acc", f"{value:.3f}"] for line in printed.splitlines())
    assert results["counts"]["bench/ceval/numerals/acc"] == 40
    assert "bench/ceval_humanities/plain/acc" in results["metrics"]
    assert "left out of bench/piqa: 1 x no file piqa/**/valid.jsonl; get it from https://yonatan" in printed
    before = (directory / "results.json").stat().st_mtime_ns
    argosy(*command)
    assert (directory / "results.json").stat().st_mtime_ns == before
    (tmp_path / "data/ceval/val/law_val.csv").write_text("id,question,A,B,answer\n0,Q,x,y,A\n1,R,x,y,B\n")
    changed = Path(argosy(*command).out.strip().splitlines()[-1].rpartition(": ")[2])
    assert changed != directory
    said = argosy(*command[:2], "--data", str(tmp_path / "none"), "--store", str(tmp_path / "runs"), code=2).err
    assert "there is no such folder" in said


def test_what_is_no_language_model_is_refused(tmp_path: Path, argosy: Argosy) -> None:
    checkpoint = save_checkpoint(tmp_path / "model", chat=True).path
    about = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    (checkpoint / "config.json").write_text(json.dumps({**about, "architectures": ["LlamaForSequenceClassification"]}))
    for path, words in ((checkpoint, "is a LlamaForSequenceClassification (a reward model, a classifier)"),
                        (tmp_path / "absent", "there is no such directory")):
        said = argosy("evaluate", str(path), "--suite", "core_probes", "--store", str(tmp_path / "runs"), code=2).err
        assert words in said


def test_a_wrong_suite_does_not_stop_the_others(tmp_path: Path, argosy: Argosy,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_BENCHMARKS", "")
    save_checkpoint(tmp_path / "model")
    (tmp_path / "wrong.yaml").write_text("probes: [{name: x, kind: perplexitie, texts: [a]}]")
    (tmp_path / "right.yaml").write_text("probes: [{name: river, kind: perplexity, texts: [the river]}]")
    suites = ["--suite", str(tmp_path / "wrong.yaml"), "--suite", str(tmp_path / "right.yaml")]
    command = ["evaluate", str(tmp_path / "model"), *suites, "--store", str(tmp_path / "runs"), "--threads", "1"]
    said = argosy(*command, code=2)
    assert "did you mean 'perplexity'" in said.err
    assert "river/" in said.out
