"""`argosy evaluate` tries again what failed and may pass, keeps what it has, and leaves alone what did not fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from argosy.errors import InputError, StepError
from argosy.evaluation.items import read_items
from argosy.scoring.scorer import Scorer
from argosy.step.runner import Item, run_item
from argosy.store.step_files import OUTPUTS, STATE
from evals import questions
from evals.task import TaskSpec
from steps.evaluate import STEP, EvaluateConfig
from tests.evaluation_fixtures import make_items, save_checkpoint, write_items
from workflows.cli import main
from workflows.local.shipping import Sender

DOWN = StepError("the network is down")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("suite")
    save_checkpoint(root / "model")
    for name, items in (("good", make_items(8)), ("flaky", make_items(24)[8:])):
        write_items(root / f"{name}.jsonl", items)
    (root / "mine.yaml").write_text("benchmarks: {tasks: {good: [good.jsonl], flaky: [flaky.jsonl]}}")
    return root


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent to MLflow, which takes seconds a command."""
    monkeypatch.setattr(Sender, "start", lambda self: None)
    monkeypatch.setattr(Sender, "close", lambda self: None)


def command(folder: Path, store: Path, *more: str) -> list[str]:
    return ["evaluate", str(folder / "model"), "--suite", str(folder / "mine.yaml"), "--store", str(store),
            "--threads", "1", *more]  # fmt: skip


@contextmanager
def failing(error: Exception, *names: str) -> Iterator[None]:
    """Tasks of these names cannot be read."""
    read = questions.read_task

    def fails(spec: TaskSpec, *args: Any) -> Any:
        if any(name in str(spec) for name in names):
            raise error
        return read(spec, *args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(questions, "read_task", fails)
        yield


def the_only(store: Path) -> Path:
    [found] = store.glob("evaluate-*")
    return found


def content(directory: Path, name: str = "results.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / name).read_text())
    return found


def test_what_failed_is_tried_again_in_its_directory(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with failing(DOWN, "flaky"):
        assert main(command(folder, tmp_path)) == 1
    directory = the_only(tmp_path)
    assert content(directory)["failed"] == {"bench/flaky": "the network is down"}
    assert content(directory, OUTPUTS)["again"] == content(directory, OUTPUTS)["outputs"]["again"] == ["bench/flaky"]
    assert main(command(folder, tmp_path)) == 0
    assert "retrying bench/flaky, which failed last time" in capsys.readouterr().out
    results = content(directory)
    assert (results["failed"], results["counts"]["bench/flaky/plain/acc"]) == ({}, 16)
    before = (directory / "results.json").stat().st_mtime_ns
    assert main(command(folder, tmp_path)) == 0
    assert (directory / "results.json").stat().st_mtime_ns == before


@pytest.mark.usefixtures("quiet")
def test_where_nothing_can_be_read_any_more_what_was_found_stays(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The network is down altogether, or back for one task and gone for the other."""
    with failing(DOWN, "flaky"):
        assert main(command(folder, tmp_path)) == 1
    directory = the_only(tmp_path)
    before = {name: (directory / name).read_bytes() for name in (OUTPUTS, "results.json", "items.parquet")}
    for gone in (("good", "flaky"), ("good",)):
        with failing(DOWN, *gone):
            assert main(command(folder, tmp_path)) == 1
        said = capsys.readouterr().out
        assert "retrying its failed parts failed: " in said
        assert "good/plain/acc" in said  # of before
        if gone == ("good", "flaky"):
            assert {name: (directory / name).read_bytes() for name in before} == before
    assert {name: (directory / name).read_bytes() for name in before if name != OUTPUTS} == {
        name: raw for name, raw in before.items() if name != OUTPUTS
    }
    model = str(folder / "model")
    assert main(["compare", model, model, "--store", str(tmp_path)]) == 0
    assert main(command(folder, tmp_path)) == 1  # the third is the last by itself
    assert "tried again" not in capsys.readouterr().out
    assert main(command(folder, tmp_path, "--again")) == 0
    assert content(directory)["counts"]["bench/flaky/plain/acc"] == 16


@pytest.mark.usefixtures("quiet")
def test_what_would_fail_again_is_tried_where_that_is_asked_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []
    compute = Scorer._computed
    monkeypatch.setattr(Scorer, "_computed", lambda self, new: computed.append(len(new)) or compute(self, new))
    wrong = InputError("this file is no benchmark")
    with failing(wrong, "flaky"):
        assert main(command(folder, tmp_path)) == 1
        directory = the_only(tmp_path)
        first, stamp = sum(computed), (directory / OUTPUTS).stat().st_mtime_ns
        assert "again" not in content(directory, OUTPUTS)
        assert main(command(folder, tmp_path)) == 1
        assert (directory / OUTPUTS).stat().st_mtime_ns == stamp
        assert main(command(folder, tmp_path, "--again")) == 1
        assert (directory / OUTPUTS).stat().st_mtime_ns != stamp
    assert sum(computed) == first > 0
    assert main(command(folder, tmp_path, "--again")) == 0
    assert content(directory)["failed"] == {}
    stamp = (directory / OUTPUTS).stat().st_mtime_ns
    assert main(command(folder, tmp_path, "--again")) == 0
    assert (directory / OUTPUTS).stat().st_mtime_ns == stamp  # nothing had failed


def test_a_step_without_a_cache_computes_what_is_new_alone_and_its_dataset_is_the_same(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = EvaluateConfig(checkpoint=str(folder / "model"), suite_file=str(folder / "mine.yaml"))
    out, computed = tmp_path / "out", list[int]()
    compute = Scorer._computed
    monkeypatch.setattr(Scorer, "_computed", lambda self, new: computed.append(len(new)) or compute(self, new))

    def evaluate(where: Path) -> int:
        computed.clear()
        assert run_item(STEP, Item(config, where)).message == "done"
        return sum(computed)

    everything = evaluate(tmp_path / "undisturbed")
    with failing(DOWN, "flaky"):
        first = evaluate(out)
    rows = {row["id"]: row["scores"] for row in read_items(out)}
    assert evaluate(out) == everything - first > 0
    assert not (out / STATE).exists()
    assert {row["id"]: row["scores"] for row in read_items(out) if row["task"] == "good"} == rows
    logged = [json.loads(line) for line in (out / "tracking/spool.jsonl").read_text().splitlines()]
    found = [record for record in logged if record["kind"] == "model_metrics"]
    assert len(found) == 2
    assert len({record["dataset_digest"] for record in found}) == 1
    assert not found[0]["values"].keys() & found[1]["values"].keys()
    assert len({record["digest"] for record in logged if record["kind"] == "artifact"}) == 2
    whole = (tmp_path / "undisturbed/tracking/spool.jsonl").read_text()
    assert found[0]["dataset_digest"] in whole
