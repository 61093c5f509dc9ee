"""The step that lets a judge compare two models."""

import json
from pathlib import Path

from argosy.core.step.process import Outcome
from argosy.core.step.runner import Item, run_item
from argosy.core.store.files import read_json
from steps.judge import STEP, JudgeConfig
from tests.evaluation_fixtures import save_checkpoint
from tests.step_fixtures import write_lines


def _run(out: Path, **config: object) -> Outcome:
    return run_item(STEP, Item(JudgeConfig.model_validate(config), out))


def test_two_checkpoints_and_a_checkpoint_that_judges(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_checkpoint(tmp_path / name, chat=True, positions=1024)
    prompts = write_lines(tmp_path / "prompts.jsonl", [{"id": n, "prompt": f"What is number {n}?"} for n in range(3)])
    config = {"first": str(tmp_path / "a"), "second": str(tmp_path / "b"), "judge": str(tmp_path / "a"),
              "prompts": str(prompts), "max_new_tokens": 8}  # fmt: skip
    assert _run(tmp_path / "out", **config).code == 0
    outputs = read_json(tmp_path / "out/outputs.json")["outputs"]
    assert outputs["metrics"]["ties"] == 1.0  # the same weights twice
    lines = [json.loads(line) for line in (tmp_path / "out/verdicts.jsonl").read_text().splitlines()]
    assert [line["first"] for line in lines] == [line["second"] for line in lines]
    assert len(lines) == 3
