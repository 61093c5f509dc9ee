"""A sweep on Argo: its template, and the plan that hands each point to a pod."""

import json
from pathlib import Path

import pytest

from argosy.evidence.sweep.grid import DIVERGED
from tests.argo_fixtures import batches, pod, write_profile
from workflows.argo.manifests.templates import sweep_template
from workflows.argo.profile.profile import load_profile
from workflows.plan import plan
from workflows.sweep import Question, read_sweep, sweep_nodes

GRID = ["pretrain.learning_rate=1e-3,1e-2", "pretrain.weight_decay=0.1,0.01"]


def test_the_template_has_a_task_for_each_stage_whatever_the_number_of_points() -> None:
    spec = sweep_template(load_profile("laptop")).to_dict()["spec"]
    [dag] = [each["dag"] for each in spec["templates"] if each["name"] == "main"]
    tasks = {task["name"]: task for task in dag["tasks"]}
    assert set(tasks) == {"plan", "data", "classifier", "score", "measure", "clean", "start", "tokenizer", "tokenize",
                          "pretrain", "sweep", "report"}
    assert "withParam" in tasks["pretrain"]
    assert tasks["sweep"]["depends"] == "(pretrain.Succeeded || pretrain.Skipped)"
    assert tasks["pretrain"]["depends"] == "(tokenize.Succeeded || tokenize.Skipped)"
    assert max(len(spec["templates"]), len(dag["tasks"])) <= 200  # as Argo 4 allows
    assert len(spec["arguments"]["parameters"]) <= 500


def test_the_plan_hands_each_point_to_a_pod_in_the_laptop_s_directories(tmp_path: Path) -> None:
    profiles, outputs = write_profile(tmp_path), tmp_path / "out"
    given = ["plan", "sweep", "--workflow", "wf", "--profile", "here", "--preset", "tiny", "--outputs", str(outputs),
             "--seeds=2", "--channel=", "--target-parameters=1e9", "--target-width="]  # fmt: skip
    assert pod(profiles, *given, env={"ARGOSY_OVERRIDES": "\n".join(GRID)}).returncode == 0
    handed = json.loads((tmp_path / "store/.argo/wf/plan.json").read_text())
    laptop = plan(sweep_nodes(read_sweep("tiny", None, GRID, 2), Question(target_parameters=1e9), tmp_path / "store"),
                  tmp_path / "store")
    assert {name: node["dir"] for name, node in handed["nodes"].items()} == {n.id: n.dir for n in laptop.nodes}
    assert len(batches(outputs)["pretrain"]) == 8
    assert handed["line"] == "tiny-sweep"
    assert Path(handed["report"]).name == Path(laptop.nodes[-1].dir).name
    wrong = pod(profiles, *given, env={"ARGOSY_OVERRIDES": "pretrain.learning_rat=1,2"})
    assert wrong.returncode == 2
    assert "nearest: pretrain.learning_rate" in wrong.stderr
    assert "seeds is '1.5', allowed: a" in pod(profiles, *given, "--seeds=1.5").stderr


def test_a_point_that_diverged_is_left_out_and_named(tmp_path: Path) -> None:
    sweep = read_sweep("tiny", None, GRID)
    first = plan(sweep_nodes(sweep, Question(), tmp_path), tmp_path)
    [gone, *others] = [node for node in first.nodes if node.name == "pretrain"]
    Path(gone.dir).mkdir()
    error = {"exit_code": 1, "message": f"the loss at step 3 {DIVERGED}, in channel en"}
    (Path(gone.dir) / "error.json").write_text(json.dumps(error))
    again = plan(sweep_nodes(sweep, Question(), tmp_path), tmp_path)
    assert [node.id for node in again.nodes if node.name == "pretrain"] == [node.id for node in others]
    [named] = json.loads(again.nodes[-1].config)["diverged"]
    assert named["name"] == gone.part
    assert named["config"]["learning_rate"] == pytest.approx(1e-3)
