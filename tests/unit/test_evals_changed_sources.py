"""Items of directories: a change in one is another evaluation, and is seen within a process too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from argosy.evaluation.suite import load_suite, named_files
from argosy.provenance import provenance_of
from evals.items import Item
from evals.runner import Benchmarks
from evals.task_spec import TaskSpec
from steps.evaluate import STEP, EvaluateConfig
from tests.evaluation_fixtures import save_checkpoint


def save(path: Path, right: int) -> None:
    """A dataset as `save_to_disk` writes it."""
    from datasets import Dataset, DatasetDict

    rows = [{"question": f"Q{n}", "subject": "art", "choices": list("wxyz"), "answer": right} for n in range(4)]
    shutil.rmtree(path, ignore_errors=True)
    DatasetDict({"test": Dataset.from_list(rows)}).save_to_disk(str(path))


def answers(file: Path) -> list[int]:
    tasks = load_suite("", str(file), ()).section("benchmarks", Benchmarks).tasks
    return [item.answer for item in tasks["mine"].read(file.parent / "no data").items if isinstance(item, Item)]


@pytest.mark.parametrize("name", ["saved", "absolute"])
def test_a_saved_dataset_with_other_answers_is_another_evaluation(name: str, tmp_path: Path) -> None:
    """Beside the suite, or absolute."""
    save_checkpoint(tmp_path / "model")
    file = tmp_path / "suite.yaml"
    hf = "saved" if name == "saved" else tmp_path / "saved"
    file.write_text(f"benchmarks: {{tasks: {{mine: {{hf: {hf}, format: mmlu}}}}}}")

    def digest() -> str:
        config = EvaluateConfig(checkpoint=str(tmp_path / "model"), suite_file=str(file), threads=1)
        assert config.suite_files == (str(tmp_path / "saved"),)
        return str(provenance_of(STEP, config, {})["digest"])

    save(tmp_path / "saved", 0)
    before = digest()
    assert answers(file) == [0] * 4
    assert digest() == before
    save(tmp_path / "saved", 3)
    assert digest() != before
    assert answers(file) == [3] * 4


def test_a_dataset_of_the_hub_is_no_folder_that_has_its_name(tmp_path: Path) -> None:
    (tmp_path / "piqa").mkdir()
    (tmp_path / "suite.yaml").write_text("benchmarks: {tasks: {piqa: {hf: piqa, format: piqa}}}")
    assert load_suite("", str(tmp_path / "suite.yaml"), ()).section("benchmarks", Benchmarks).tasks["piqa"].hf == "piqa"
    assert named_files(str(tmp_path / "suite.yaml")) == []


def test_yaml_and_functions_of_a_task_that_change_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lm_eval.tasks

    manager: Any = lm_eval.tasks.TaskManager
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", lambda **kwargs: manager(**{**kwargs, "include_defaults": False}))
    docs = [{"q": f"Which {n}?", "c": ["stone", "salt"], "gold": n % 2} for n in range(4)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))

    def first(text: str, code: str = "") -> str:
        (tmp_path / "made.py").write_text(f"def made(doc):\n    return {code or 'doc'}\n")
        (tmp_path / "mine.yaml").write_text(
            "task: mine\ndataset_path: json\noutput_type: multiple_choice\ntest_split: test\n"
            f"dataset_kwargs: {{data_files: {{test: {tmp_path}/docs.jsonl}}, cache_dir: {tmp_path}/cache}}\n"
            f"doc_to_text: {text}\ndoc_to_target: gold\ndoc_to_choice: c\n"
        )
        (item, *_) = TaskSpec(lm_eval="mine", include_path=str(tmp_path)).read(tmp_path).items
        return item.question

    assert first('"{{q}}"') == "Which 0?"
    assert first('"Say: {{q}}"') == "Say: Which 0?"
    assert first("!function made.made", "'One: ' + doc['q']") == "One: Which 0?"
    assert first("!function made.made", "'Other: ' + doc['q']") == "Other: Which 0?"
