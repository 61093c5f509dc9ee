"""A budget: what is spent and what the rest will take, before anything starts."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.store.step_files import NODE, OUTPUTS, RUN
from steps.pretrain import PretrainConfig
from workflows.budget import accounts, check_budget, spent_by
from workflows.graph import Graph, Node, Resources
from workflows.lifecycle import LifecycleConfig
from workflows.plan import Plan, plan


def pretraining(tokens: int, width: int = 64) -> Node:
    config = PretrainConfig.model_validate({"tokens": tokens, "model": {"hidden_size": width}})
    return Node("pretrain", "pretrain", config, resources=Resources(gpus=4))


def ran(store: Path, node: Node, seconds: float, **more: Any) -> Path:
    """Write a run of `seconds` on 4 GPUs, a tenth of it before its first step."""
    out = Path(Graph([node]).directory(node, str(store)))
    out.mkdir()
    (out / NODE).write_text(json.dumps(Graph([node]).made_from(node)))
    run = {"started": 0, "began": seconds / 10, "from": 0, "done": 100, "at": seconds, "undone": 0, "stalled": 0}
    attempt = {"started": 0, "ended": seconds, "exit": 0, "cause": "", "gpus": 4, "runs": [run], **more}
    (out / RUN).write_text(json.dumps({"exit": attempt["exit"], "history": [attempt]}))
    if attempt["exit"] == 0:
        (out / OUTPUTS).write_text(json.dumps({"outputs": {}, "made_from": Graph([node]).made_from(node)}))
    return out


def told(planned: Plan, **config: Any) -> str:
    found = accounts(planned, LifecycleConfig.model_validate(config))
    check_budget(found, planned)
    return "\n".join(each.describe() for each in found)


def test_what_ran_before_tells_what_more_of_it_takes(tmp_path: Path) -> None:
    """3,240 s of steps on 4 GPUs for 8,192 tokens: 7.2 GPU-hours for twice as many; the old run is none of this one."""
    ran(tmp_path, pretraining(8192), 3600)
    planned = plan([pretraining(16384)], tmp_path)
    assert told(planned) == ""
    assert told(planned, budget={"gpu_hours": 8}) == (
        "budget.gpu_hours is 8: 0 spent; the rest will take about 7.2 (pretrain 7.2)")
    with pytest.raises(InputError, match=r"about 7\.2 \(pretrain 7\.2\): raise budget\.gpu_hours, or train less"):
        told(planned, budget={"gpu_hours": 7})
    with pytest.raises(InputError, match=r"budget\.cost is 20: 0 spent; the rest will take about 21\.6"):
        told(planned, budget={"cost": 20}, gpu_hour_price=3)


def test_of_a_model_that_never_ran_nothing_is_assumed(tmp_path: Path) -> None:
    ran(tmp_path, pretraining(8192), 3600)
    assert told(plan([pretraining(8192, width=128)], tmp_path), budget={"gpu_hours": 0.1}) == (
        "budget.gpu_hours is 0.1: 0 spent; no estimate of pretrain, which never ran like this")


def test_what_a_stage_has_spent_counts_and_its_speed_tells_the_rest(tmp_path: Path) -> None:
    """Half an hour on 4 GPUs for 100 of 300 steps, of which 27 minutes were steps."""
    out = ran(tmp_path, pretraining(8192), 1800, exit=143, cause="preemption", price=2.0)
    (out / "progress.json").write_text(json.dumps({"done": 100, "total": 300}))
    planned = plan([pretraining(8192)], tmp_path)
    assert told(planned, budget={"gpu_hours": 6, "cost": 15}, gpu_hour_price=3).splitlines() == [
        "budget.gpu_hours is 6: 2 spent; the rest will take about 3.6 (pretrain 3.6)",
        "budget.cost is 15: 4 spent; the rest will take about 10.8 (pretrain 10.8)"]
    with pytest.raises(InputError, match="2 spent"):
        told(planned, budget={"gpu_hours": 2})


def test_a_store_tells_what_each_person_and_workflow_has_spent(tmp_path: Path) -> None:
    ran(tmp_path, pretraining(8192), 3600, person="wei", workflow="lifecycle-a", namespace="ml", price=2.0)
    ran(tmp_path, pretraining(16384), 1800, person="ann", workflow="lifecycle-b", exit=137, cause="oom")
    ran(tmp_path, pretraining(4096), 900, person="wei", workflow="lifecycle-b", price=2.0)
    assert spent_by(tmp_path, "person") == [
        ("PERSON", "ATTEMPTS", "HOURS", "GPU-HOURS", "COST"), ("wei", "2", "1.25", "5.00", "10.00"),
        ("ann", "1", "0.50", "2.00", "unknown")]
    workflows = [row[::3] for row in spent_by(tmp_path, "workflow")[1:]]
    assert workflows == [("lifecycle-a", "4.00"), ("lifecycle-b", "3.00")]
    assert [row[0] for row in spent_by(tmp_path, "namespace")[1:]] == ["ml", "(unknown)"]
    assert [row[:2] for row in spent_by(tmp_path, "stage")[1:]] == [("pretrain", "3")]
    with pytest.raises(InputError, match="nothing has run"):
        spent_by(tmp_path / "no", "person")


def test_a_budget_without_a_gpu_says_that_it_counts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = Node("pretrain", "pretrain", PretrainConfig(), resources=Resources(gpus=0))
    told(plan([node], tmp_path), budget={"gpu_hours": 1})
    assert capsys.readouterr().err == "note: budget.gpu_hours counts GPUs, and no stage that is to run has one here\n"


def test_a_finished_pipeline_is_never_refused(tmp_path: Path) -> None:
    ran(tmp_path, pretraining(8192), 3600)
    assert told(plan([pretraining(8192)], tmp_path), budget={"gpu_hours": 1}) == "budget.gpu_hours is 1: 4 spent"


def test_a_budget_in_money_needs_a_price() -> None:
    with pytest.raises(ValueError, match=r"budget\.cost is 5, .* set gpu_hour_price"):
        LifecycleConfig.model_validate({"budget": {"cost": 5}})
