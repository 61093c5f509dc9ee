"""`argosy evaluate` tries again what failed and may pass, keeps what it has, and leaves alone what did not fail."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError, StepError
from argosy.core.store.step_files import OUTPUTS
from argosy.model.infer.scorer import Scorer
from evals import section
from evals.task import TaskSpec
from tests.command_line import Argosy
from tests.evaluation_fixtures import make_items, save_checkpoint, write_items

DOWN = StepError("the network is down")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("suite")
    save_checkpoint(root / "model")
    for name, items in (("good", make_items(8)), ("flaky", make_items(24)[8:])):
        write_items(root / f"{name}.jsonl", items)
    (root / "mine.yaml").write_text("benchmarks: {tasks: {good: [good.jsonl], flaky: [flaky.jsonl]}}")
    return root


def command(folder: Path, store: Path, *more: str) -> list[str]:
    return ["evaluate", str(folder / "model"), "--suite", str(folder / "mine.yaml"), "--store", str(store),
            "--threads", "1", *more]  # fmt: skip


@contextmanager
def failing(error: Exception, *names: str) -> Iterator[None]:
    """Tasks of these names cannot be read."""
    read = section.read_task

    def fails(spec: TaskSpec, *args: Any) -> Any:
        if any(name in str(spec) for name in names):
            raise error
        return read(spec, *args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(section, "read_task", fails)
        yield


def the_only(store: Path) -> Path:
    [found] = store.glob("evaluate-*")
    return found


def content(directory: Path, name: str = "results.json") -> dict[str, Any]:
    return dict(json.loads((directory / name).read_text()))


def test_what_failed_is_tried_again_in_its_directory(folder: Path, tmp_path: Path, argosy: Argosy) -> None:
    with failing(DOWN, "flaky"):
        argosy(*command(folder, tmp_path), code=1)
    directory = the_only(tmp_path)
    assert content(directory)["failed"] == {"bench/flaky": "the network is down"}
    assert content(directory, OUTPUTS)["again"] == content(directory, OUTPUTS)["outputs"]["again"] == ["bench/flaky"]
    assert "retrying bench/flaky, which failed last time" in argosy(*command(folder, tmp_path)).out
    results = content(directory)
    assert (results["failed"], results["counts"]["bench/flaky/plain/acc"]) == ({}, 16)
    before = (directory / "results.json").stat().st_mtime_ns
    argosy(*command(folder, tmp_path))
    assert (directory / "results.json").stat().st_mtime_ns == before


@pytest.mark.usefixtures("no_mlflow")
def test_what_would_fail_again_is_tried_where_that_is_asked_for(folder: Path, tmp_path: Path, argosy: Argosy,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    compute = Scorer._computed
    monkeypatch.setattr(Scorer, "_computed", lambda self, new: computed.append(len(new)) or compute(self, new))
    wrong = InputError("this file is no benchmark")
    with failing(wrong, "flaky"):
        argosy(*command(folder, tmp_path), code=1)
        directory = the_only(tmp_path)
        first, stamp = sum(computed), (directory / OUTPUTS).stat().st_mtime_ns
        assert "again" not in content(directory, OUTPUTS)
        argosy(*command(folder, tmp_path), code=1)
        assert (directory / OUTPUTS).stat().st_mtime_ns == stamp
        argosy(*command(folder, tmp_path, "--again"), code=1)
        assert (directory / OUTPUTS).stat().st_mtime_ns != stamp
    assert sum(computed) == first > 0
    argosy(*command(folder, tmp_path, "--again"))
    assert content(directory)["failed"] == {}
    stamp = (directory / OUTPUTS).stat().st_mtime_ns
    argosy(*command(folder, tmp_path, "--again"))
    assert (directory / OUTPUTS).stat().st_mtime_ns == stamp  # nothing had failed
