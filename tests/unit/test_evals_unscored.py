"""Answers of lm-eval's harness without a score are left out by name, and no name stands for two tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.errors import InputError
from argosy.evaluation.findings import Findings
from argosy.evaluation.language_model import LanguageModel
from argosy.statistics.intervals import Estimate
from evals.runner import Benchmarks, run_benchmarks
from tests.evaluation_fixtures import make_items, make_language_model, write_items

TASK = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {root}/{name}.jsonl}}, cache_dir: {root}/cache}}
test_split: test
output_type: {kind}
doc_to_text: "{text}"
doc_to_target: {target}
metric_list: [{metrics}]
"""
CHOICE = ("multiple_choice", "Question: {{q}}\\nAnswer:", "gold\ndoc_to_choice: c",
          "{metric: acc}, {metric: acc_norm}, {metric: f1}")  # fmt: skip
ROLLING = ("loglikelihood_rolling", "", '"{{q}}"', "{metric: byte_perplexity}")
BROKEN = {3: "whale", 4: "whale", 8: "whale"}  # documents with a word that the model has no number for


@pytest.fixture(autouse=True)
def own_tasks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """lm-eval's own tasks take many seconds to list."""
    import lm_eval.tasks

    manager: Any = lm_eval.tasks.TaskManager
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", lambda **kwargs: manager(**{**kwargs, "include_defaults": False}))


def write(root: Path, *, broken: bool) -> None:
    """Tasks `mine` and `other` in group `both`, and `text`; without the `broken` documents where these are not
    wanted."""
    root.mkdir()
    places = [n for n in range(12) if broken or n not in BROKEN]
    docs = [(n, {"q": f"Which is {BROKEN.get(n, 'stone')} {n}?", "c": ["stone", "salt", "the Nile"], "gold": n % 2})
            for n in places]  # fmt: skip
    for name, (kind, text, target, metrics) in {"mine": CHOICE, "other": CHOICE, "text": ROLLING}.items():
        some = [(n, doc) for n, doc in docs if n not in BROKEN][:6] if name == "other" else docs
        (root / f"{name}.jsonl").write_text("".join(json.dumps(doc) + "\n" for _, doc in some))
        filled = TASK.format(name=name, root=root, kind=kind, text=text, target=target, metrics=metrics)
        (root / f"{name}.yaml").write_text(filled)
    (root / "both.yaml").write_text(
        "group: both\ntask: [mine, other]\naggregate_metric_list: [{metric: acc, weight_by_size: true}]\n"
    )


def run(model: LanguageModel, root: Path) -> Findings:
    section = Benchmarks.model_validate({"lm_eval": ["both", "text"], "include_path": str(root)})
    return run_benchmarks(section, model, root, chat=False, seed=0, limit=None)


def test_documents_without_a_score_take_no_part_in_any_metric(tmp_path: Path) -> None:
    import torch

    model = make_language_model()
    whale, before = (set(model.encode([f"Which is {word} 1?"])[0]) for word in ("whale", "stone"))
    with torch.no_grad():
        model.model.get_input_embeddings().weight[sorted(whale - before)] = float("nan")
    write(tmp_path / "all", broken=True)
    write(tmp_path / "rest", broken=False)
    found, expected = run(model, tmp_path / "all"), run(model, tmp_path / "rest")
    assert not expected.left_out
    assert {"bench/mine/plain/f1", "bench/both/plain/acc", "bench/text/plain/byte_perplexity"} < expected.metrics.keys()
    assert found.metrics == pytest.approx(expected.metrics)
    assert found.counts == expected.counts
    closed_form = {name for name in expected.stderr if not name.endswith("f1")}  # that one is drawn
    assert {name: found.stderr[name] for name in closed_form} == pytest.approx(
        {name: expected.stderr[name] for name in closed_form}
    )
    assert found.left_out == {f"bench/{name}/plain": {"score is not a number": 3} for name in ("mine", "text")}
    assert {row["id"] for row in found.rows if row["task"] == "mine"} == {
        f"mine/{n}" for n in range(12) if n not in BROKEN
    }


def test_a_model_without_any_number_has_no_accuracy(tmp_path: Path) -> None:
    import torch

    model = make_language_model()
    with torch.no_grad():
        model.model.model.norm.weight.mul_(float("nan"))
    write(tmp_path / "all", broken=True)
    found = run(model, tmp_path / "all")
    assert found.metrics == {}
    assert found.rows == []
    counts = {name: sum(found.left_out[f"bench/{name}/plain"].values()) for name in ("mine", "other", "text")}
    assert counts == {"mine": 12, "other": 6, "text": 12}
    assert found.failed == {"bench/both": "no answer of its task mine has a score"}


def test_an_option_longer_than_the_model_is_said_to_be(tmp_path: Path) -> None:
    write(tmp_path / "all", broken=False)
    docs = [{"q": "Which?", "c": ["stone", "salt " * 400 if n == 1 else "salt"], "gold": 0} for n in range(4)]
    (tmp_path / "all/mine.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    found = run(make_language_model(), tmp_path / "all")
    assert found.left_out == {"bench/mine/plain": {"answer is longer than the model": 1}}
    assert found.counts["bench/mine/plain/acc"] == 3


@pytest.mark.parametrize("name", ["mine", "other", "both"])
def test_a_name_in_tasks_that_lm_eval_loads_too_is_refused(name: str, tmp_path: Path) -> None:
    write(tmp_path / "all", broken=False)
    write_items(tmp_path / "all/items.jsonl", make_items(4))
    section = Benchmarks.model_validate(
        {"tasks": {name: ["items.jsonl"]}, "lm_eval": ["both"], "include_path": str(tmp_path / "all")}
    )
    with pytest.raises(InputError, match=rf"benchmarks: {name} is both of `tasks` and of `lm_eval` \(both\)"):
        run_benchmarks(section, make_language_model(), tmp_path / "all", chat=False, seed=0, limit=None)


def test_parts_that_measure_the_same_are_not_merged() -> None:
    one, other = Findings(), Findings()
    one.add("bench/mine/plain/acc", Estimate(0.5, 0.1, 4))
    other.add("bench/mine/plain/acc", Estimate(0.25, 0.1, 4))
    with pytest.raises(InputError, match="two of its parts measure bench/mine/plain/acc"):
        one.merge(other)
    assert one.metrics == {"bench/mine/plain/acc": 0.5}
