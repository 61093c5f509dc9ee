"""The pods' commands: the laptop's plan (the bytes are compared end to end), what is handed over, what is refused."""

import argparse
import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.store.step_files import OUTPUTS, PROGRESS, STATE
from argosy.evidence.sweep.grid import DIVERGED
from tests.argo_fixtures import batches, plan_pod, pod, run_batches, write_profile
from workflows.argo.attempts import FAILED
from workflows.argo.handoff import GIVEN, LABELS, tasks_of
from workflows.argo.manifests.templates import evaluate_template, lifecycle_template, sweep_template
from workflows.argo.pod.outputs import MEMORY, check_images, pod_patch, with_devices, write_outputs
from workflows.argo.pod.run import ArgoProgress
from workflows.argo.profile.profile import Profile, load_profile
from workflows.budget import spent_by
from workflows.cli import main
from workflows.compose import compose, every_stage
from workflows.graph import Resources
from workflows.lifecycle import lifecycle
from workflows.local.view import NodeResult
from workflows.plan import PlannedNode, describe, plan
from workflows.sweep import Question, read_sweep, sweep_nodes

RANGE = ("--to", "tokenize")
pytestmark = pytest.mark.usefixtures("no_mlflow", "warm")


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    return write_profile(tmp_path)


def test_pods_in_the_order_of_the_tasks_make_the_laptop_s_nodes_once(profiles: Path, tmp_path: Path) -> None:
    labels = {"workflows.argoproj.io/creator": "system-serviceaccount-argo", "argosy/person": "ann",
              "workflows.argoproj.io/creator-preferred-username": "wei"}
    planned = plan_pod(profiles, tmp_path / "out", *RANGE, env={LABELS: json.dumps(labels)})
    assert planned.returncode == 0, planned.stderr
    given = batches(tmp_path / "out")
    order = [task.name for task in tasks_of(every_stage())]
    laptop = plan(lifecycle(compose("tiny")), tmp_path / "laptop", None, "tokenize")
    assert [task for task in order if given[task]] == [node.name for node in laptop.to_run]
    for task in order:
        assert run_batches(profiles, given[task]) == [0] * len(given[task])

    assert all((tmp_path / "store" / Path(node.dir).name / OUTPUTS).is_file() for node in laptop.to_run)
    assert [row[:2] for row in spent_by(tmp_path / "store", "person")[1:]] == [("wei", str(len(laptop.to_run)))]
    assert [row[0] for row in spent_by(tmp_path / "store", "workflow")[1:]] == ["wf"]
    for status, stopped, noted in (("Failed", "true", "KILLED"), ("Failed", "false", "FAILED"),
                                   ("Succeeded", "false", "FINISHED")):
        end = ("finish", "--workflow", "wf", "--profile", "here", "--status", status)
        assert pod(profiles, *end, env={"ARGOSY_STOPPED": stopped}).returncode == 0
        assert json.loads((tmp_path / "store/.argo/wf/finished.json").read_text()) == {"status": noted}

    again = plan_pod(profiles, tmp_path / "again", *RANGE, workflow="wf-2")
    assert again.returncode == 0
    assert not any(batches(tmp_path / "again").values())  # every task is skipped, without a pod
    assert [(tmp_path / out / "finish").read_text() for out in ("out", "again")] == ["yes", "no"]  # so is the handler
    assert json.loads((tmp_path / "store/.argo/wf-2/finished.json").read_text()) == {"status": "FINISHED"}

    env = {"ARGOSY_OVERRIDES": "tokenizer.vocab_size=600"}
    assert plan_pod(profiles, tmp_path / "changed", *RANGE, workflow="wf-3", env=env).returncode == 0
    assert [task for task, given in batches(tmp_path / "changed").items() if given] == ["tokenize", "tokenizer"]


def test_what_the_train_image_lacks_is_said_at_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    field = "pretrain.tensorboard=true"
    for form, code in (("slim", 2), ("full", 0)):
        folder = write_profile(tmp_path, images={"form": form})
        planned = plan_pod(folder, tmp_path / "out", "--to", "pretrain", env={"ARGOSY_OVERRIDES": field})
        assert planned.returncode == code
        here = ["plan", "--preset", "tiny", "--profile", str(folder / "here.yaml"), "--store", str(tmp_path), field]
        assert main(here) == code
        for said in (planned.stderr, capsys.readouterr().err):
            assert ("pretrain.tensorboard=true needs tensorboard, which the image argosy-train of the profile 'here' "
                    "lacks (images.form: slim): build it with `make images IMAGES=train`" in said) == bool(code)


@pytest.mark.parametrize(("fields", "form", "lacks"), [
    ({"optimizer": "adamw_8bit"}, "cpu", "torchao.*form to full.* or set optimizer=adafactor"),
    ({"lora": {"kind": "qlora"}}, "slim", "bitsandbytes.* or set lora.kind=lora"),
    ({"engine": {"name": "zero", "nvme_path": "/Disk"}}, "slim", "engine.nvme_path=/Disk needs libaio"),
    ({"engine": {"name": "zero", "nvme_path": "/Disk"}}, "full", "nvcc.* one of your own that has it .*form to own"),
    ({"generation": "vllm", "server": {"url": ""}}, "full", "IMAGES=vllm`.*form to vllm.* or name a running server"),
    ({"generation": "vllm", "server": {"url": "http://v"}}, "full", ""), ({"backend": "vllm"}, "own", ""),
    ({"backend": "vllm"}, "vllm", "vLLM beside"), ({"formats": ["hub", "gguf"]}, "slim", "formats=gguf needs gguf"),
    ({"model": "/m/A.GGUF"}, "slim", "model=/m/A.GGUF needs gguf"), ({"model": {}, "engine": "zero"}, "slim", "")])
def test_each_field_is_held_to_the_form_of_the_train_image(fields: Any, form: str, lacks: str) -> None:
    profile = Profile.model_validate({"storage": {"claim": "c"}, "images": {"form": form}})
    made: Any = PlannedNode.model_construct
    node = made(name="x", config=json.dumps(fields), resources=Resources(gpus=1))
    with pytest.raises(InputError, match=f"^x.*{lacks}") if lacks else nullcontext():
        check_images([node], profile)


def test_a_pod_whose_pipeline_has_spent_its_budget_saves_and_is_not_tried_again(profiles: Path, tmp_path: Path) -> None:
    overrides = ("budget.gpu_hours=0.002",  # 7 s
                 "resources.pretrain.gpus=1", "pretrain.tokens=51200000")
    env = {"CUDA_VISIBLE_DEVICES": "0", "ARGOSY_OVERRIDES": "\n".join(overrides)}
    assert plan_pod(profiles, tmp_path / "out", "--to", "pretrain", env=env).returncode == 0
    given = batches(tmp_path / "out")
    before = [name for task in tasks_of(every_stage()) for name in given[task.name] if task.name != "pretrain"]
    assert run_batches(profiles, before, **env) == [0] * len(before)
    [batch] = given["pretrain"]
    stopped = pod(profiles, "run", "--workflow", "wf", "--profile", "here", "--batch", batch, env=env)
    assert stopped.returncode == FAILED
    assert "budget.gpu_hours is 0.002" in stopped.stderr
    assert list((tmp_path / "store" / batch / STATE).glob("step-*"))


def test_an_export_is_evaluated_beside_its_stage_and_not_again_after_it(profiles: Path, tmp_path: Path) -> None:
    def wait(queue: list[str]) -> list[str]:
        given = ("wait", "--workflow", "wf", "--profile", "here", "--queue", json.dumps(queue))
        assert pod(profiles, *given, "--outputs", str(tmp_path / "wait")).returncode == 0
        return [(tmp_path / "wait" / name).read_text() for name in ("batch", "task", "rest")]

    overrides = ("evaluate.follow=true", "evaluate.suites={heldout: all}", "pretrain.exports=[0.5, 1.0]",
                 "stages=[clean, tokenizer, tokenize, pretrain, evaluate]", "pretrain.tokens=20480")
    planned = plan_pod(profiles, tmp_path / "out", env={"ARGOSY_OVERRIDES": "\n".join(overrides)})
    assert planned.returncode == 0, planned.stderr
    given = batches(tmp_path / "out")
    [first] = queue = json.loads((tmp_path / "out/early").read_text())
    before = [name for task in tasks_of(every_stage()) for name in given[task.name] if task.stage != "evaluate"]
    assert run_batches(profiles, before) == [0] * len(before)
    assert wait(queue) == [first, "evaluate-pretrain", "[]"]
    assert run_batches(profiles, [first]) == [0]
    [early] = (tmp_path / "store").glob("evaluate-*/outputs.json")
    written = early.stat().st_mtime_ns
    assert run_batches(profiles, given["evaluate-pretrain"]) == [0]
    assert early.stat().st_mtime_ns == written
    assert len([*(tmp_path / "store").glob("evaluate-*/outputs.json")]) == 2

    shutil.rmtree(next((tmp_path / "store").glob("pretrain-*")))
    assert pod(profiles, "end", "--workflow", "wf", "--profile", "here").returncode == 0
    assert wait(queue) == ["", "", "[]"]  # its stage has failed for good


def test_a_pod_tells_argo_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "progress"
    monkeypatch.setenv("ARGO_PROGRESS_FILE", str(file))
    node = plan(lifecycle(compose("tiny")), tmp_path, None, "data").nodes[0]
    Path(node.dir).mkdir()
    (Path(node.dir) / PROGRESS).write_text(json.dumps({"done": 3, "total": 4}))
    observer = ArgoProgress(2)
    observer.on_start(node)
    observer.on_tick()
    assert file.read_text() == "37/100"
    observer.on_finish(NodeResult(node, "ran"))
    assert file.read_text() == "50/100"


@pytest.mark.parametrize(("given", "env", "words"), [
    ((), {"ARGOSY_OVERRIDES": "sft.learning_rat=1\n"}, "nearest: sft.learning_rate"),
    ((), {"ARGOSY_CONFIG": "sft:\n  epochs: many\n"}, "line 2: sft.epochs is 'many'"),
    ((), {"ARGOSY_TEMPLATE_STORE": "claim team-store, at /store/runs"},
     "the WorkflowTemplate was made for claim team-store, at /store/runs"),
    (("--to", "data", "--promote", "ask"), {}, "promote is 'ask', but compare"),
    (("--promote", "ask"), {}, ""),
])  # fmt: skip
def test_what_is_wrong_fails_in_the_plan_with_the_laptop_s_words(given: tuple[str, ...], env: dict[str, str],
                                                                 words: str, profiles: Path, tmp_path: Path) -> None:
    planned = plan_pod(profiles, tmp_path / "out", *given, env=env)
    assert planned.returncode == (2 if words else 0)
    assert words in planned.stderr
    assert "Traceback" not in planned.stderr
    assert (tmp_path / "out").exists() == (not words)


def test_a_misspelt_parameter_of_the_workflow_is_refused_by_the_plan(profiles: Path) -> None:
    """The expression for their names was tried with Argo 4.1.2's own package `util/template`."""
    for template in (lifecycle_template, evaluate_template, sweep_template):
        spec = template(load_profile("laptop")).to_dict()["spec"]
        [plan_] = [each["container"] for each in spec["templates"] if each["name"] == "plan"]
        fields = plan_["args"][plan_["args"].index("--fields") + 1]
        assert fields.split() == [each["name"] for each in spec["arguments"]["parameters"]]
        assert {"name": GIVEN, "value": "{{=sprig.join(' ', keys(workflow.parameters))}}"} in plan_["env"]
        given = ("plan", spec["workflowMetadata"]["labels"]["argosy/pipeline"], "--workflow", "wf", "--profile", "here")
        wrong = pod(profiles, *given, "--fields", fields, env={GIVEN: "profile json preference image-tag"})
        assert wrong.returncode == 2
        assert "has no parameter 'preference'; nearest: " in wrong.stderr


@pytest.mark.parametrize(
    ("overrides", "gpus", "processes"),
    [((), "2", 2), (("pretrain.processes=4",), "4", 4), (("resources.pretrain.gpus=4",), "4", 4),
     (("resources.pretrain.gpus=0",), None, 1)],
)  # fmt: skip
def test_a_pod_with_gpus_starts_a_process_for_each(overrides: tuple[str, ...], gpus: str | None, processes: int,
                                                   tmp_path: Path) -> None:
    devices = {name: {"devices": {"gpus": 2}} for name in ("pretrain", "evaluate")}
    profile = Profile.model_validate({"storage": {"claim": "store"}, "stages": devices})
    planned = plan(lifecycle(with_devices(compose("tiny", None, overrides), profile)), tmp_path, None, "pretrain")
    node = next(node for node in planned.nodes if node.name == "pretrain")
    assert json.loads(node.config)["processes"] == node.resources.processes == processes
    [main] = pod_patch(profile, "pretrain", "train", node.resources)["containers"]
    assert main["resources"]["limits"].get("nvidia.com/gpu") == gpus
    assert f"run, {gpus} GPUs" in describe(planned) if gpus else "GPUs" not in describe(planned)


def test_the_config_is_recorded_as_composed_and_a_line_s_pods_fit_each_of_its_nodes(tmp_path: Path) -> None:
    profiles = write_profile(tmp_path, stages={"pretrain": {"devices": {"gpus": 2}, "cpu": "1"}})
    assert plan_pod(profiles, tmp_path / "out").returncode == 0
    assert json.loads((tmp_path / "out/patches").read_text())["pretrain"].count("nvidia.com/gpu") == 2
    [config] = (tmp_path / "store/.pipelines").glob("*/config.json")
    assert "gpus" not in config.read_text()

    planned = plan(lifecycle(compose("tiny")), tmp_path, None, "data")
    large = planned.nodes[0].model_copy(update={"id": "large", "resources": Resources(8, 16.0, gpus=1)})
    args = argparse.Namespace(image_tag="", priority="", outputs=tmp_path / "sizes")
    for nodes in ((large, planned.nodes[0]), (planned.nodes[0], large)):
        [task] = [task for task in tasks_of(every_stage()) if task.name == "data"]
        both = planned.model_copy(update={"nodes": nodes})
        write_outputs(both, [task], {"data": {}}, load_profile("laptop"), args, "")
        [main] = json.loads(json.loads((args.outputs / "patches").read_text())["data"])["containers"]
        assert main["resources"]["requests"] == {"cpu": "5600m", "memory": MEMORY, "nvidia.com/gpu": "1"}
        assert json.loads((args.outputs / "memory").read_text()) == {"data": "15259"}


GRID = ["pretrain.learning_rate=1e-3,1e-2", "pretrain.weight_decay=0.1,0.01"]  # of a sweep


def test_the_plan_hands_each_point_to_a_pod_in_the_laptop_s_directories(tmp_path: Path) -> None:
    profiles, outputs = write_profile(tmp_path), tmp_path / "out"
    given = ["plan", "sweep", "--workflow", "wf", "--profile", "here", "--preset", "tiny", "--outputs", str(outputs),
             "--seeds=2", "--channel=", "--target-parameters=1e9"]  # fmt: skip
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
