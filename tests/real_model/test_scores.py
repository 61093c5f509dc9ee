"""A real model's benchmarks are lm-eval's and its probes plain forward passes of transformers, item by item."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.evidence.results.items import read_items
from tests import benchmark_files as files
from tests.evaluation_fixtures import run_evaluate
from tests.lm_eval_fixtures import harness_answers, harness_task, hflm, run_harness
from tests.real_model.reference import Reference

pytestmark = pytest.mark.real_model
COUNT, SHOTS, TOKENS = 40, 1, 48
RULES: dict[str, Any] = {rule: [
    {"layout": {"before": "Question: ", "cue": "\nAnswer:", "separator": " "}},
    {"generative": {"extract": f"gsm8k_{rule}", "stops": ["Question:"], "max_tokens": TOKENS, "annotations": True}},
    {"few_shot": {"n": SHOTS, "choose": "first"}}] for rule in ("strict", "flexible")}
CORES = len(os.sched_getaffinity(0))


def evaluate(start: Path, root: Path, **sections: Any) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """The metrics of a suite of one's own over data below `root`, and the rows of its items."""
    (root / "suite.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    found = run_evaluate(root / "out", checkpoint=str(start), suite_file=str(root / "suite.yaml"), data=str(root),
                         threads=CORES, batch_tokens=2048, chat="off")
    return found["metrics"], read_items(root / "out")


@pytest.mark.usefixtures("own_tasks_alone")
def test_options_are_scored_as_lm_eval_scores_them(started: Path, theirs: Reference, tmp_path: Path) -> None:
    """PIQA, `plain` of the documents of lm-eval's task, and `lm_eval` of the published files."""
    task = files.piqa(COUNT)
    task.write(tmp_path)
    expected = run_harness(hflm(theirs), harness_task(task, tmp_path), task.name)
    wanted = [list(each.values()) for each in harness_answers(expected, task.name)]
    tasks = {"theirs": {"lm_eval": "piqa", "include_path": str(tmp_path), "only": ["plain"]},
             "published": {"use": "piqa", "task": "piqa", "only": []}}
    metrics, rows = evaluate(started, tmp_path, benchmarks={"tasks": tasks, "variants": {"plain": None}})
    for name, variant in (("theirs", "plain"), ("published", "lm_eval")):
        found = [row["scores"] for row in rows if row["task"] == name]
        assert found == [pytest.approx(each, abs=2e-3) for each in wanted]
        for metric in ("acc", "acc_norm"):
            assert metrics[f"bench/{name}/{variant}/{metric}"] == expected["results"][task.name][f"{metric},none"]
    assert metrics["bench/theirs/plain/acc"] > 0.55  # it knows something: a guess has a half


@pytest.mark.usefixtures("own_tasks_alone")
def test_solutions_are_written_as_lm_eval_has_them_written(started: Path, theirs: Reference, tmp_path: Path) -> None:
    """GSM8K after a worked example: the texts, and what both of lm-eval's rules read in them."""
    task = files.gsm8k(COUNT, SHOTS)
    task.write(tmp_path)
    train = {"train": str(tmp_path / "gsm8k/train.jsonl")}
    base = harness_task(task, tmp_path, fewshot_split="train", num_fewshot=SHOTS, data_files=train,
                         fewshot_config={"sampler": "first_n"},
                         generation_kwargs={"until": ["Question:"], "do_sample": False, "max_gen_toks": TOKENS})
    samples = run_harness(hflm(theirs), base, task.name)["samples"][task.name]
    tasks = {"gsm8k": {"use": "gsm8k", "only": list(RULES), "variants": {}}}
    _, rows = evaluate(started, tmp_path, benchmarks={"tasks": tasks, "variants": RULES})
    for rule in RULES:
        mine, read = ([each for each in some if each[key] == name] for some, key, name in (
            (rows, "variant", rule), (samples, "filter", f"{rule}-{'match' if rule == 'strict' else 'extract'}")))
        assert [row.get("text", "") for row in mine] == [sample["resps"][0][0] for sample in read]
        assert [float(row["correct"]) for row in mine] == [sample["exact_match"] for sample in read]
