"""Items of directories: a change in one is another evaluation, and is seen within a process too."""

import shutil
from pathlib import Path

import pytest

from argosy.evaluation.suite import load_suite, named_files
from argosy.store.provenance import provenance_of
from evals.items import Item
from evals.section import Benchmarks
from evals.task_sources import read_task
from steps.evaluate import STEP, EvaluateConfig
from tests.evaluation_fixtures import save_checkpoint


def save(path: Path, right: int) -> None:
    """A dataset as `save_to_disk` writes it."""
    from datasets import Dataset, DatasetDict

    rows = [{"question": f"Q{n}", "subject": "art", "choices": list("wxyz"), "answer": right} for n in range(4)]
    shutil.rmtree(path, ignore_errors=True)
    DatasetDict({"test": Dataset.from_list(rows)}).save_to_disk(str(path))


def answers(file: Path) -> list[int]:
    tasks = load_suite(str(file)).section("benchmarks", Benchmarks).tasks
    return [item.answer for item in read_task(tasks["mine"], file.parent / "no data").items if isinstance(item, Item)]


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
        return str(provenance_of(STEP.name, STEP.version, config, {})["digest"])

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
    assert load_suite(str(tmp_path / "suite.yaml")).section("benchmarks", Benchmarks).tasks["piqa"].hf == "piqa"
    assert named_files(str(tmp_path / "suite.yaml")) == []
