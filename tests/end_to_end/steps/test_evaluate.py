"""The evaluate step on a small checkpoint: what it writes, that it repeats, and what it says of wrong input."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argosy.core.errors import InputError
from argosy.evidence.results.items import read_items
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
    assert found["headline"] == {"facts": ["chinese_labels", "cloze", "options_in_text", "permuted", "plain"]}
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


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"checkpoint": "/nowhere/sft"}, "/nowhere/sft does not exist"),
        ({"export": "quarter"}, "'quarter' is not in .*there are: final, end, half"),
        ({"suite": "benchmarks"}, "did you mean 'benchmark'"),
        ({"suite": "heldout"}, "give `tokens`"),
        ({"data": "/nowhere"}, "benchmark/en.jsonl does not exist"),
    ],
)
def test_wrong_input_is_named(store: Path, tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(store, tmp_path / "out", **fields)
