"""A tree of post-training on Argo: groups of items, the template that runs any of them, and what the plan hands it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.argo_api import Pod, workflow
from tests.argo_fixtures import plan_pod, write_profile
from workflows.argo.client.view import view
from workflows.argo.manifests.templates import lifecycle_template
from workflows.argo.pod.jobset import NODES
from workflows.argo.pod.outputs import JOBSETS
from workflows.argo.pod.plan import BATCHES, GROUPS, NEXT, TREE, groups
from workflows.argo.profile.profile import load_profile
from workflows.branches import branch_steps
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.plan import plan

pytestmark = pytest.mark.usefixtures("no_mlflow", "warm")
CONFIG = """\
posttraining:
  - {name: chat, method: sft}
  - {name: simple, from: chat, method: simpo}
  - {name: judge_model, from: chat, method: reward_model}
  - {name: graded, from: chat, method: grpo, reward_model: judge_model}
  - {name: taught, method: distillation, teacher: "http://x/v1", teacher_model: m}
  - {name: apart, method: sft, learning_rate: 1.0e-5, data: taught}
"""


def shape(links: dict[str, str], *roots: str) -> dict[str, Any]:
    """Groups as nested dictionaries, by the names of their items."""
    found = groups({name: needs.split() for name, needs in links.items()})

    def nested(keys: tuple[str, ...]) -> dict[str, Any]:
        return {" ".join(found[key].items): nested(found[key].following) for key in keys}

    assert sorted(name for group in found.values() for name in group.items) == sorted(links)
    return nested(roots)


def test_branches_are_groups_apart_and_an_item_of_two_waits_for_both() -> None:
    tree = {"a": "", "b": "a", "c": "b", "d": "a", "e": ""}
    assert shape(tree, "a", "e") == {"a": {"b": {"c": {}}, "d": {}}, "e": {}}
    reward = {"sft": "", "judge": "sft", "ppo": "sft judge", "dpo": "sft"}
    assert shape(reward, "sft") == {"sft": {"judge": {"ppo": {}}, "dpo": {}}}
    two = {"sft": "", "judge": "", "ppo": "sft judge", "last": "ppo"}
    assert shape(two, "sft") == {"sft judge": {"ppo": {"last": {}}}}
    long = {f"i{n}": f"i{n - 1}" if n else "" for n in range(40)}
    assert len(groups({name: needs.split() for name, needs in long.items()})) == 40


@pytest.mark.parametrize("name", ["laptop", "gpu"])
def test_one_template_runs_any_tree(name: str) -> None:
    profile = load_profile(name)
    spec, several = lifecycle_template(profile).to_dict()["spec"], profile.nodes is not None
    templates = {each["name"]: each for each in spec["templates"]}
    main = {task["name"]: task for task in templates["main"]["dag"]["tasks"]}
    assert main[TREE]["template"] == "branch"
    assert main[TREE]["depends"] == main["sft"]["depends"]
    assert f"({TREE}.Succeeded || {TREE}.Skipped)" in main["leaks"]["depends"]  # it reads what items have made
    assert "(leaks.Succeeded || leaks.Skipped)" in main["compare"]["depends"]
    branch = {task["name"]: task for task in templates["branch"]["dag"]["tasks"]}
    assert set(branch) == {*(step.replace("_", "-") for step in branch_steps()), "evaluate", NEXT, *[NODES][:several]}
    assert branch[NEXT]["template"] == "branch"
    assert branch["sft"]["template"] == main["sft"]["template"]  # the slot of the profile's sft
    assert branch["preference"]["template"] == main["dpo"]["template"]
    assert branch[NEXT]["depends"] == branch["evaluate"]["depends"]  # a failed evaluation holds no item up
    assert templates["branch"]["dag"]["failFast"] is False
    assert max(len(templates), len(main)) <= 200  # as Argo 4 allows
    plan_ = templates["plan"]["outputs"]["parameters"]
    for read in (GROUPS, BATCHES, "patches", "memory", *[JOBSETS][:several]):
        assert {"name": read, "globalName": read}.items() <= next(e for e in plan_ if e["name"] == read).items()
        assert f"workflow.outputs.parameters.{read}" in json.dumps(branch)


class Handed:
    """The outputs of a plan, as the templates read them."""

    def __init__(self, folder: Path) -> None:
        self.roots, self.groups, self.batches, self.patches, self.every = (
            json.loads((folder / name).read_text()) for name in (TREE, GROUPS, BATCHES, "patches", f"run-{TREE}"))

    def pods(self, keys: list[str]) -> Iterator[tuple[str, str]]:
        """Names of the pods and their batches, in the order in which the template starts them."""
        for key in keys:
            group = self.groups[key]
            yield from ((name, self.batches[name]) for kind in (*branch_steps(), "evaluate") for name in group[kind])
            yield from self.pods(group[NEXT])


def test_a_plan_hands_a_tree_over_in_the_laptop_s_directories(tmp_path: Path) -> None:
    devices = {"gpus": 2, "shm": "1Gi"}
    placed = {"dpo": {"devices": devices}, "rlhf": {"devices": devices}, "sft": {"cpu": "1500m"}}
    profiles = write_profile(tmp_path, stages=placed, nodes={})
    env = {"ARGOSY_CONFIG": CONFIG, "ARGOSY_OVERRIDES": "resources.judge_model.nodes=2"}
    planned = plan_pod(profiles, tmp_path / "out", env=env)
    assert planned.returncode == 0, planned.stderr
    handed = Handed(tmp_path / "out")
    config = tmp_path / "tree.yaml"
    config.write_text(CONFIG)
    gpus = "resources={simple: {gpus: 2}, graded: {gpus: 2}, taught: {gpus: 1}, judge_model: {nodes: 2}}"
    laptop = {node.id: node for node in plan(lifecycle(compose("tiny", config, [gpus])), tmp_path / "store").nodes}
    order = dict(handed.pods(handed.roots))
    names = [name for name in order if name in laptop]
    assert sorted(names) == ["apart", "chat", "graded", "judge_model", "simple", "taught"]
    for name in names:
        assert order[name] == Path(laptop[name].dir).name
        assert all(names.index(other) < names.index(name) for other in laptop[name].upstream if other in names)
    assert handed.roots == ["chat", "taught"]
    assert handed.groups["taught"][NEXT] == ["apart"]
    assert handed.groups["chat"][NEXT] == ["simple", "judge_model"]
    assert handed.groups["judge_model"][NEXT] == ["graded"]
    assert sorted(handed.every) == sorted(order.values())
    evaluated = {name.partition("-")[0] for name in order if "-" in name}
    assert evaluated == {"chat", "simple", "graded", "apart"}  # a reward model writes no answers
    requests = {name: json.loads(handed.patches[name])["containers"][0]["resources"]["requests"] for name in names}
    assert requests["simple"]["nvidia.com/gpu"] == "2"
    assert json.loads(laptop["simple"].config)["processes"] == 2
    assert requests["chat"]["cpu"] == requests["apart"]["cpu"] == "1500m"
    assert requests["graded"]["nvidia.com/gpu"] == "2"
    assert requests["taught"]["nvidia.com/gpu"] == "1"  # one process asks its teacher's server
    assert [name for group in handed.groups.values() for name in group[NODES]] == ["judge_model"]
    jobset = json.loads(json.loads((tmp_path / "out" / JOBSETS).read_text())["judge_model"])
    assert jobset["metadata"]["generateName"] == "a-wf-judge-model-__ATTEMPT__-"
    assert jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == 2
    assert requests["judge_model"]["cpu"] == "700m"  # of the launcher


def test_what_is_done_or_out_of_range_has_no_pod_and_a_range_ends_at_an_item(tmp_path: Path) -> None:
    profiles = write_profile(tmp_path)
    env = {"ARGOSY_CONFIG": CONFIG, "ARGOSY_OVERRIDES": "posttraining.simple.max_steps=1"}
    assert plan_pod(profiles, tmp_path / "out", "--to", "simple", env=env).returncode == 0
    handed = Handed(tmp_path / "out")
    assert [name for name, _ in handed.pods(handed.roots)] == ["chat", "simple"]
    assert handed.groups["chat"][NEXT] == ["simple"]
    assert plan_pod(profiles, tmp_path / "plain", workflow="wf-2").returncode == 0
    assert Handed(tmp_path / "plain").roots == []
    wrong = plan_pod(profiles, tmp_path / "wrong", "--from", "simpl", workflow="wf-3", env=env)
    assert "there is no stage 'simpl'; nearest: simple" in wrong.stderr


def test_an_item_is_a_task_of_its_own_to_whoever_watches() -> None:
    found = workflow(plan=Pod(), batches={"data": {"data-1": (Pod(),)}})
    nodes = found["status"]["nodes"]
    [retry] = [node for node in nodes.values() if node["type"] == "Retry" and node["name"].endswith(".data")]
    pods = {
        "posttraining(0:chat).sft(0:chat)": "chat-12ab",
        "posttraining(0:chat).next(1:judge_model).reward-model(0:judge_model)": "judge_model-12ab",
        "posttraining(0:chat).nodes(0:chat)": "chat-34cd",
        "posttraining(0:chat).evaluate(0:chat-1of1)": "evaluate-chat-34cd-5ef-1of1",
        "posttraining(0:chat).next(0:simple).evaluate(1:simple-2of3)": "evaluate-simple-34cd-5ef-2of3"}
    for number, (name, batch) in enumerate(pods.items()):
        inputs = {"parameters": [{"name": "batch", "value": batch}]}
        nodes[f"t{number}"] = {**retry, "id": f"t{number}", "name": f"lifecycle-1.{name}", "inputs": inputs}
    shown = {unit.label: unit for unit in view(found).units if unit.batch in pods.values()}
    assert {label: unit.task for label, unit in shown.items()} == {
        "chat": "chat", "chat-nodes": "chat-nodes", "judge-model": "judge-model", "evaluate-chat": "evaluate-chat",
        "evaluate-simple/2of3": "evaluate-simple"}  # fmt: skip
