"""Tasks of lm-eval as files: YAML, and the documents that it reads instead of Hugging Face."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from argosy.scoring.model import LanguageModel

CHOICE = {"output_type": "multiple_choice", "doc_to_text": "{{q}}", "doc_to_choice": "c", "doc_to_target": "gold",
          "metric_list": [{"metric": "acc"}]}  # fmt: skip
RIVERS = [{"q": f"river {n}", "c": [" stone", " water"], "gold": n % 2} for n in range(2)]


def hflm(model: LanguageModel, **options: Any) -> Any:
    """lm-eval's own model of the same weights and tokenizer."""
    from lm_eval.models.huggingface import HFLM

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    return HFLM(pretrained=model.model, tokenizer=model.tokenizer, batch_size=16, **options)


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
        yaml.safe_dump({"group": name, "task": list(tasks), "aggregate_metric_list": metrics})
    )


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
