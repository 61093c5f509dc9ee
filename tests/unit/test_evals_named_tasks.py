"""Tasks of lm-eval by their names: one that cannot be loaded is named, and the others go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.errors import InputError, StepError
from argosy.evaluation.findings import Findings
from argosy.evaluation.language_model import LanguageModel
from evals.named_tasks import load_named
from evals.runner import Benchmarks, run_benchmarks
from tests.evaluation_fixtures import make_items, make_language_model, write_items


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return make_language_model()


@pytest.fixture(autouse=True)
def own_tasks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """lm-eval's own tasks take many seconds to list."""
    import lm_eval.tasks

    manager: Any = lm_eval.tasks.TaskManager
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", lambda **kwargs: manager(**{**kwargs, "include_defaults": False}))


def write_task(root: Path, name: str, text: str = "river") -> None:
    """A task of YAML with two items; `lost` has none."""
    if name != "lost":
        items = [{"text": f"{text} {n}", "choices": [" stone", " water"], "gold": n % 2} for n in range(2)]
        (root / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    (root / f"{name}.yaml").write_text(
        f"task: {name}\ndataset_path: json\noutput_type: multiple_choice\ntest_split: test\n"
        f"dataset_kwargs: {{data_files: {{test: {root / name}.jsonl}}, cache_dir: {root / 'cache'}}}\n"
        "doc_to_text: text\ndoc_to_target: gold\ndoc_to_choice: choices\nmetric_list: [{metric: acc}]\n"
    )


def test_a_name_that_cannot_be_loaded_is_named_and_the_others_are_asked(model: LanguageModel, tmp_path: Path) -> None:
    for name in ("rivers", "lost"):
        write_task(tmp_path, name)
    write_items(tmp_path / "good.jsonl", make_items(8))
    section = Benchmarks.model_validate(
        {"tasks": {"good": ["good.jsonl"]}, "lm_eval": ["lost", "rivers", "nobody"], "include_path": str(tmp_path)}
    )
    found = run_benchmarks(section, model, tmp_path, chat=False, seed=0, limit=None)
    assert found.counts["bench/rivers/plain/acc"] == 2
    assert found.counts["bench/good/plain/acc"] == 8
    assert found.failed.keys() == {"bench/lost", "bench/nobody"}
    assert not found.again  # its data is a file that is not there, and no network's
    assert found.failed["bench/lost"].startswith("lm-eval cannot load it: FileNotFoundError: ")
    assert "'nobody' is not a registered task" in found.failed["bench/nobody"]
    assert str(tmp_path) not in str(found.failed)


def test_where_nothing_else_is_asked_it_says_why(tmp_path: Path) -> None:
    write_task(tmp_path, "lost")
    with pytest.raises(InputError, match=r"suite: lm_eval: nobody: .*not a registered task"):
        load_named(["nobody"], str(tmp_path), Findings(), alone=True)
    with pytest.raises(StepError, match=r"suite: lm_eval: lost: .*FileNotFoundError"):
        load_named(["lost"], str(tmp_path), Findings(), alone=True)


def write_group(root: Path) -> None:
    """Tasks of three sizes and kinds in a group that counts by size: two of choices (one document has no right one),
    one that is generated, with two filters."""
    for name, count in (("few", 2), ("many", 6)):
        write_task(root, name)
        items = [{"text": f"河 {n}", "choices": [" stone", " water", " 水"], "gold": n % 3} for n in range(count)]
        items[1:2] = [{**items[1], "gold": 9}] if name == "many" else items[1:2]
        (root / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
        text = (root / f"{name}.yaml").read_text()
        (root / f"{name}.yaml").write_text(text.replace("[{metric: acc}]", "[{metric: acc}, {metric: acc_norm}]"))
    write_task(root, "said")
    text = (root / "said.yaml").read_text().replace("multiple_choice", "generate_until")
    (root / "said.yaml").write_text(
        text.replace("metric: acc", "metric: exact_match").replace("doc_to_choice: choices\n", "")
        + "generation_kwargs: {until: ['.'], max_gen_toks: 4}\nfilter_list:\n"
        "- {name: strict, filter: [{function: take_first}]}\n"
        "- {name: first_letter, filter: [{function: regex, regex_pattern: '(.)'}, {function: take_first}]}\n"
    )
    (root / "both.yaml").write_text(
        "group: both\ntask: [few, many]\naggregate_metric_list: [{metric: acc, weight_by_size: true}]\n"
    )


def test_each_item_is_a_row_as_ours_are_and_groups_have_their_mean(model: LanguageModel, tmp_path: Path) -> None:
    from argosy.comparison.rows import Rows
    from argosy.comparison.values import total
    from argosy.report.answers import sorted_rows

    write_group(tmp_path)
    section = Benchmarks.model_validate({"lm_eval": ["both", "said"], "include_path": str(tmp_path)})
    found = run_benchmarks(section, model, tmp_path, chat=False, seed=0, limit=None)
    assert found.headline == {"few": ["plain"], "many": ["plain"], "said": ["strict"]}
    acc = {name: found.metrics[f"bench/{name}/plain/acc"] for name in ("few", "many", "both")}
    assert acc["both"] == pytest.approx((2 * acc["few"] + 6 * acc["many"]) / 8)
    assert found.counts["bench/both/plain/acc"] == 8
    rows = Rows(found.rows)
    of_items = [name for name in found.metrics if not name.startswith("bench/both/")]
    assert {"bench/few/plain/acc_norm", "bench/said/strict/acc", "bench/said/first_letter/exact_match"} < set(of_items)
    for name in of_items:
        values = rows.values(name)
        assert total(values) == pytest.approx(found.metrics[name]), name
        assert len(values) == found.counts[name]
    assert rows.headline("said", ["strict"]).keys() == {"said/0", "said/1"}
    row = rows.groups["many", "plain"][2]
    pairs = [("河 2", f" {text}") for text in (" stone", " water", " 水")]
    assert row["scores"] == pytest.approx([score.logprob for score in model.loglikelihood(pairs)], abs=1e-4)
    assert (row["id"], row["item"], row["gold"], row["lang"]) == ("many/2", "many/2", 2, "zh")
    assert row["correct"] == (row["chosen"] == 2)
    assert "gold" not in rows.groups["many", "plain"][1]  # no option of it is right
    read = sorted_rows(found.rows)
    assert read.broken == 0
    assert {key: len(answers.rows) for key, answers in read.answers.items()} == {
        ("few", "plain"): 2, ("many", "plain"): 5, ("said", "strict"): 2, ("said", "first_letter"): 2,
    }  # fmt: skip


def test_where_no_file_can_be_read_named_tasks_are_asked_all_the_same(model: LanguageModel, tmp_path: Path) -> None:
    write_task(tmp_path, "rivers")
    section = Benchmarks.model_validate(
        {"tasks": {"gone": ["gone.jsonl"]}, "lm_eval": ["rivers"], "include_path": str(tmp_path)}
    )
    found = run_benchmarks(section, model, tmp_path, chat=False, seed=0, limit=None)
    assert found.counts["bench/rivers/plain/acc"] == 2
    assert found.failed.keys() == {"bench/gone"}
    assert not found.again  # once it is there, the evaluation is another one
