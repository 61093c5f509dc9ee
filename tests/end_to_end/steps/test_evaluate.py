"""The evaluate step on a small checkpoint: what it writes, repeats and tries again, and what it says of wrong input."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argosy.core.errors import InputError, StepError
from argosy.core.store.step_files import OUTPUTS
from argosy.evidence.results.items import read_items
from argosy.model.infer.scorer import Scorer
from evals import section
from evals.task import TaskSpec
from tests.command_line import Argosy
from tests.evaluation_fixtures import make_items, run_evaluate, save_checkpoint, write_items


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training step with two exports, and a data step."""
    root = tmp_path_factory.mktemp("store")
    exports = []
    for name, chat in (("half", False), ("end", True)):
        save_checkpoint(root / "sft/checkpoints" / name, chat=chat)
        exports.append({"name": name, "path": f"checkpoints/{name}", "step": 10, "tokens": 1000})
    outputs = {"outputs": {"exports": exports, "final": "checkpoints/end"}, "made_from": {}}
    (root / "sft/outputs.json").write_text(json.dumps(outputs))
    for lang in ("en", "zh"):
        write_items(root / f"data/benchmark/{lang}.jsonl", [i for i in make_items(24) if i.lang == lang])
    return root


def evaluate(store: Path, out: Path, **fields: Any) -> dict[str, Any]:
    return run_evaluate(out, **{"checkpoint": str(store / "sft"), "data": str(store / "data"), **fields})


def test_results_items_and_metrics_are_as_documented(store: Path, tmp_path: Path) -> None:
    found = evaluate(store, tmp_path / "a")
    assert found["checkpoint"] == {"stage": "sft", "name": "end", "step": 10, "tokens": 1000, "chat": True}
    rows = read_items(tmp_path / "a")
    plain = [row for row in rows if row["variant"] == "plain"]
    assert len(plain) == 24
    assert found["metrics"]["bench/facts/plain/acc"] == sum(row["correct"] for row in plain) / 24
    chinese = [row["correct"] for row in plain if row["lang"] == "zh"]
    assert found["metrics"]["bench/facts_zh/plain/acc"] == sum(chinese) / len(chinese)
    spread = np.std([row["correct"] for row in plain], ddof=1)
    assert found["stderr"]["bench/facts/plain/acc"] == pytest.approx(spread / 24**0.5)
    assert found["counts"]["bench/facts/permuted/acc"] == 24 * 4
    in_words = ["cloze", "options_as_text", "options_in_text"]
    assert found["headline"] == {
        "facts": sorted(["chinese_labels", "generated", "permuted", *in_words, *(f"{x}/acc_norm" for x in in_words)])}
    assert found["metrics"].keys() == found["counts"].keys() >= found["stderr"].keys()
    spool = [json.loads(line) for line in (tmp_path / "a/tracking/spool.jsonl").read_text().splitlines()]
    assert any("bench/facts/plain/acc" in json.dumps(record) for record in spool)


def test_same_config_same_bytes_and_chat_changes_prompts(store: Path, tmp_path: Path) -> None:
    for name, fields in {"a": {}, "b": {"batch_tokens": 8192}, "c": {"chat": "off"}, "d": {"export": "half"}}.items():
        evaluate(store, tmp_path / name, limit=6, **fields)
    bytes_of = {name: (tmp_path / name / "items.parquet").read_bytes() for name in "abcd"}
    assert bytes_of["a"] == bytes_of["b"] != bytes_of["c"]
    assert bytes_of["c"] == bytes_of["d"]  # the same weights; the other export is not a chat one


def test_a_benchmark_in_one_language_is_enough(store: Path, tmp_path: Path) -> None:
    write_items(tmp_path / "data/benchmark/en.jsonl", [i for i in make_items(8) if i.lang == "en"])
    write_items(tmp_path / "data/benchmark/zh.jsonl", [])
    found = evaluate(store, tmp_path / "out", data=str(tmp_path / "data"))
    assert found["counts"]["bench/facts/plain/acc"] == 4
    write_items(tmp_path / "data/benchmark/en.jsonl", [])
    with pytest.raises(InputError, match=r"en\.jsonl has no usable item"):
        evaluate(store, tmp_path / "none", data=str(tmp_path / "data"))


SUITE = """\
benchmarks:
  tasks: {good: [good.jsonl], broken: [broken.jsonl], absent: [absent.jsonl]}
  variants: {plain: , few: {few_shot: {n: 2}}}
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("faulty")
    save_checkpoint(root / "model")
    write_items(root / "good.jsonl", make_items(8))
    write_items(root / "flaky.jsonl", make_items(24)[8:])
    line = json.loads((root / "good.jsonl").read_text().splitlines()[0])
    bad = [{**line, "id": "x", "answer": 4}, {**line, "id": "y", "choices": ["a"]}]
    good = (root / "good.jsonl").read_text()
    (root / "good.jsonl").write_text(good + "".join(json.dumps(each) + "\n" for each in bad) + '{"id": "cut\n')
    (root / "broken.jsonl").write_text("\n".join(json.dumps(each) for each in bad))
    (root / "suite.yaml").write_text(SUITE)
    (root / "mine.yaml").write_text("benchmarks: {tasks: {good: [good.jsonl], flaky: [flaky.jsonl]}}")
    return root


def evaluate_faulty(faulty: Path, out: Path, **fields: Any) -> dict[str, Any]:
    given = {"checkpoint": str(faulty / "model"), "suite_file": str(faulty / "suite.yaml"), **fields}
    return run_evaluate(out, **given)


def test_broken_lines_and_tasks_are_named_and_the_rest_goes_on(faulty: Path, tmp_path: Path,
                                                               capsys: pytest.CaptureFixture[str]) -> None:
    found = evaluate_faulty(faulty, tmp_path / "out")
    assert found["counts"]["bench/good/plain/acc"] == found["counts"]["bench/good/few/acc"] == 8
    left_out = found["left_out"]["bench/good"]
    assert (sum(left_out.values()), left_out["invalid JSON"], left_out["answer is not among the choices"]) == (3, 1, 1)
    assert found["failed"].keys() == {"bench/broken", "bench/absent"}
    assert found["failed"]["bench/broken"].startswith("broken.jsonl has no usable item")
    assert "absent.jsonl" in found["failed"]["bench/absent"]
    assert str(faulty) not in json.dumps(found)  # results of two machines are equal
    assert {row["task"] for row in read_items(tmp_path / "out")} == {"good"}
    lines = (tmp_path / "out/rejects/items.jsonl").read_text(encoding="utf-8").splitlines()
    rejects = {(each["task"], each["file"], each["record"]): each["reason"] for each in map(json.loads, lines)}
    assert rejects.keys() == {("good", "good", n) for n in (9, 10, 11)}  # after its eight items
    assert rejects["good", "good", 9] == "answer is not among the choices"
    assert rejects["good", "good", 11] == "invalid JSON"
    assert "failed: bench/broken: broken.jsonl has no usable item" in capsys.readouterr().out


@pytest.mark.parametrize(("suite", "message"), [
    ("benchmarks: {tasks: {a/b: [good.jsonl]}}", r"benchmarks\.tasks: 'a/b' is no name.*begin with a letter"),
    ("benchmarks: {tasks: {a: {files: good.jsonl, variants: {x/y: plain}}}}", "'x/y' is no name"),
    ("benchmarks: {tasks: {a: [good.jsonl]}, variants: {x: plian}}", r"a, variants\.x: .*did you mean 'plain'"),
    ("benchmarks: {tasks: {a: {files: good.jsonl, format: mmul}}}", r"tasks\.a\.format: .*did you mean 'mmlu'"),
    ("benchmarks: {tasks: {a: {files: good.jsonl, only: [plane]}}}", r"tasks\.a\.only is plane.*none is left"),
    ("benchmarks: {variants: {plain: }}", "benchmarks asks nothing: give tasks"),
    ("benchmarks: {tasks: {a: {lm_eval: x, include_path: absent}}}", r"tasks\.a\.include_path: there is no folder"),
    ("heldout: {}", r"give `tokens`, .*\(argosy evaluate --tokens DIR\), or `texts`"),
    ("benchmarks: {tasks: {a: [good.jsonl]}, varients: {x: plain}}", "benchmarks: varients is not a field;"),
    ("heldout: {strides: 3}", "heldout: strides is not a field; nearest: stride")])
def test_a_suite_is_read_before_a_model_is_looked_for(faulty: Path, tmp_path: Path, suite: str, message: str) -> None:
    (tmp_path / "suite.yaml").write_text(suite)
    with pytest.raises(InputError, match=message):
        evaluate_faulty(faulty, tmp_path / "out", suite_file=str(tmp_path / "suite.yaml"),
                        checkpoint=str(tmp_path / "none"))


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


@pytest.mark.usefixtures("no_mlflow")
def test_what_failed_is_tried_again_where_it_may_pass_or_where_that_is_asked_for(
    faulty: Path, tmp_path: Path, argosy: Argosy, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its directory, with the scores that it has, and not where nothing failed."""
    computed: list[int] = []
    compute = Scorer._computed
    monkeypatch.setattr(Scorer, "_computed", lambda self, new: computed.append(len(new)) or compute(self, new))
    command = ["evaluate", str(faulty / "model"), "--suite", str(faulty / "mine.yaml"), "--store", str(tmp_path),
               "--threads", "1"]
    with failing(StepError("the network is down"), "flaky"):
        argosy(*command, code=1)
    [directory] = tmp_path.glob("evaluate-*")

    def content(name: str = "results.json") -> Any:
        return json.loads((directory / name).read_text())

    assert content()["failed"] == {"bench/flaky": "the network is down"}
    assert content(OUTPUTS)["again"] == content(OUTPUTS)["outputs"]["again"] == ["bench/flaky"]
    first = sum(computed)
    with failing(InputError("this file is no benchmark"), "flaky"):
        assert "retrying bench/flaky, which failed last time" in argosy(*command, code=1).out
        assert "again" not in content(OUTPUTS)
        stamp = (directory / OUTPUTS).stat().st_mtime_ns
        argosy(*command, code=1)
        assert (directory / OUTPUTS).stat().st_mtime_ns == stamp
        argosy(*command, "--again", code=1)
        assert (directory / OUTPUTS).stat().st_mtime_ns != stamp
    assert sum(computed) == first > 0
    argosy(*command, "--again")
    assert (content()["failed"], content()["counts"]["bench/flaky/plain/acc"]) == ({}, 16)
    stamp = (directory / OUTPUTS).stat().st_mtime_ns
    argosy(*command, "--again")
    assert (directory / OUTPUTS).stat().st_mtime_ns == stamp
