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
    assert found.failed["bench/lost"].startswith("lm-eval cannot load it: FileNotFoundError: ")
    assert "'nobody' is not a registered task" in found.failed["bench/nobody"]
    assert str(tmp_path) not in str(found.failed)


def test_where_nothing_else_is_asked_it_says_why(tmp_path: Path) -> None:
    write_task(tmp_path, "lost")
    with pytest.raises(InputError, match=r"suite: lm_eval: nobody: .*not a registered task"):
        load_named(["nobody"], str(tmp_path), Findings(), alone=True)
    with pytest.raises(StepError, match=r"suite: lm_eval: lost: .*FileNotFoundError"):
        load_named(["lost"], str(tmp_path), Findings(), alone=True)
