"""Tasks of lm-eval as files (YAML, and the documents that it reads instead of Hugging Face), and its own answers."""

import json
import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from tests.benchmark_files import Published, write_files

CHOICE = {"output_type": "multiple_choice", "doc_to_text": "{{q}}", "doc_to_choice": "c", "doc_to_target": "gold",
          "metric_list": [{"metric": "acc"}]}  # fmt: skip
RIVERS = [{"q": f"river {n}", "c": [" stone", " water"], "gold": n % 2} for n in range(2)]


def hflm(model: Any, **options: Any) -> Any:
    """lm-eval's own model of the weights and the tokenizer that `model` has."""
    from lm_eval.models.huggingface import HFLM

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    return HFLM(pretrained=model.model, tokenizer=model.tokenizer, batch_size=16, **options)


def harness_task(task: Published, path: Path, base: str = "", **fields: Any) -> Any:
    """lm-eval's own task, read from JSON files below `path` instead of from Hugging Face."""
    from lm_eval.tasks import TaskManager

    write_files(path, {f"{task.split}.jsonl": task.rows})
    data = {task.split: str(path / f"{task.split}.jsonl"), **fields.pop("data_files", {})}
    changed = {"dataset_path": "json", "dataset_name": None, "dataset_kwargs": {"data_files": data},
               "training_split": None, "validation_split": task.split, "test_split": None,
               "fewshot_split": None, "num_fewshot": 0, **fields}  # fmt: skip
    spec = find_spec("lm_eval")
    (own,) = (Path(spec.submodule_search_locations[0]) / "tasks" / task.folder).rglob(f"{base or task.base}.yaml")
    (path / "task.yaml").write_text(yaml.safe_dump({"include": str(own), "task": task.name, **changed}))
    return TaskManager(include_path=str(path), include_defaults=False).load([task.name])["tasks"][task.name]


def run_harness(lm: Any, task: Any, name: str) -> dict[str, Any]:
    """What lm-eval finds with one task: its results and samples."""
    from lm_eval.evaluator import evaluate

    found: dict[str, Any] = evaluate(lm, {"tasks": {name: task}}, bootstrap_iters=10, log_samples=True)
    return found


def harness_answers(result: dict[str, Any], name: str) -> list[dict[str, float]]:
    """By document: option's request -> log-probability."""
    answers = []
    for sample in sorted(result["samples"][name], key=lambda sample: sample["doc_id"]):
        scores = [response[0][0] for response in sample["resps"]]
        texts = [context + continuation for context, continuation in sample["arguments"]]
        answers.append(dict(zip(texts, map(float, scores), strict=True)))
    return answers


def write_task(root: Path, name: str, docs: Sequence[Any] | None, **fields: Any) -> None:
    """Write a task (by default of documents with `q`, `c` and `gold`); None: its documents are absent."""
    if docs is not None:
        (root / f"{name}.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    data = {"data_files": {"test": str(root / f"{name}.jsonl")}, "cache_dir": str(root / "cache")}
    task = {"task": name, "dataset_path": "json", "dataset_kwargs": data, "test_split": "test", **CHOICE, **fields}
    task = {field: value for field, value in task.items() if value is not None}
    (root / f"{name}.yaml").write_text(yaml.safe_dump(task, allow_unicode=True), encoding="utf-8")


def write_group(root: Path, name: str, tasks: Sequence[str]) -> None:
    """Write a group whose accuracy counts all items alike."""
    metrics = [{"metric": "acc", "weight_by_size": True}]
    (root / f"{name}.yaml").write_text(
        yaml.safe_dump({"group": name, "task": list(tasks), "aggregate_metric_list": metrics}))


def write_three_kinds(root: Path) -> None:
    """Two tasks in a group that counts by size (one document has no right option), a generated one with two filters."""
    for name, count in (("few", 2), ("many", 6)):
        docs = [{"q": f"河 {n}", "c": [" stone", " water", " 水"], "gold": n % 3} for n in range(count)]
        docs[1:2] = [{**docs[1], "gold": 9}] if name == "many" else docs[1:2]
        write_task(root, name, docs, metric_list=[{"metric": "acc"}, {"metric": "acc_norm"}])
    first_letter = [{"function": "regex", "regex_pattern": "(.)"}, {"function": "take_first"}]
    write_task(root, "said", RIVERS, output_type="generate_until", doc_to_choice=None,
               metric_list=[{"metric": "exact_match"}], generation_kwargs={"until": ["."], "max_gen_toks": 4},
               filter_list=[{"name": "strict", "filter": [{"function": "take_first"}]},
                            {"name": "first_letter", "filter": first_letter}])  # fmt: skip
    write_group(root, "both", ["few", "many"])
