"""Manifests: tasks, pods and profiles say what they should; argo-install/generated has all of them (test_install)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.core.errors import InputError
from argosy.core.tracking.mlflow.registry import Version
from workflows.argo.handoff import assign, deal, tasks_of
from workflows.argo.manifests.documents import manifests
from workflows.argo.manifests.templates import evaluate_template, lifecycle_template
from workflows.argo.pod import serving
from workflows.argo.pod.outputs import memory_mb, pod_patch
from workflows.argo.profile.profile import Profile, load_profile, profile_names
from workflows.argo.profile.settings import Placement
from workflows.compose import compose, every_stage
from workflows.graph import Resources
from workflows.lifecycle import lifecycle
from workflows.plan import plan

FULL = every_stage()
TRACKED = {"tracking": {"uri": "http://mlflow:5000"}}


@pytest.mark.parametrize("name", profile_names())
def test_no_container_has_rights_and_none_runs_as_root(name: str) -> None:
    documents = [each for given in manifests(load_profile(name)).values() for each in given]
    for spec in (each["spec"] for each in documents if each["kind"] == "WorkflowTemplate"):
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] > 0
        for container in (each["container"] for each in spec["templates"] if "container" in each):
            assert container["securityContext"].items() >= {
                "readOnlyRootFilesystem": True, "runAsNonRoot": True, "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]}}.items()


@pytest.mark.parametrize(
    "overrides", [(), ("long_context=null", "anneal=null", "dpo=null"), ("rlhf=null", "twin=false")]
)
def test_each_task_waits_for_what_its_nodes_depend_on_also_where_a_stage_is_left_out(overrides: tuple[str, ...],
                                                                                     tmp_path: Path) -> None:
    tasks = {task.name: task for task in tasks_of(FULL)}
    nodes = plan(lifecycle(compose("demo", overrides=overrides)), tmp_path).nodes
    of_node = {node.id: name for name, given in assign(nodes, list(tasks.values())).items() for node in given}
    assert len(of_node) == len(nodes)

    def before(name: str) -> set[str]:
        return {name}.union(*(before(other) for other in tasks[name].upstream))

    for node in nodes:
        assert {of_node[other] for other in node.upstream} <= before(of_node[node.id])
    assert "anneal" not in tasks["evaluate-pretrain"].upstream  # it does not wait for later training
    assert {of_node[node.id] for node in nodes} >= {"evaluate-sft", "evaluate-pretrain"}


@pytest.mark.parametrize("how", ["Succeeded", "Failed", "Errored", "Skipped", "Omitted"])
def test_nobody_waits_for_exports_however_the_stages_that_train_ended(how: str) -> None:
    tasks = lifecycle_template(load_profile("gpu")).to_dict()["spec"]["templates"][0]["dag"]["tasks"]
    [(planned, _, depends)] = [task["depends"].partition(" && ") for task in tasks if task["name"] == "over"]
    assert planned == "plan.Succeeded"  # whose outputs `when` needs
    said = re.sub(r"[\w-]+\.(\w+)", lambda found: str(found[1] == how), depends)
    assert eval(said.replace("||", "or").replace("&&", "and").replace("!", "not "))
    assert {"pretrain", "rlhf", "posttraining"} <= {*re.findall(r"([\w-]+)\.", depends)}


def test_ten_thousand_parts_are_dealt_to_a_hundred_pods_without_loss(tmp_path: Path) -> None:
    planned = plan(lifecycle(compose("tiny", overrides=("clean.shards=10000",))), tmp_path, None, "clean")
    scores = [node for node in planned.to_run if node.name == "score"]
    batches = deal("score", scores, "abc", 100)
    assert sorted(node for batch in batches.values() for node in batch.nodes) == sorted(node.id for node in scores)
    assert len(scores) == 10_000
    assert len(batches) == 100
    assert len(json.dumps(list(batches))) < 10_000  # what the plan hands to Argo
    [clean] = [node for node in planned.to_run if node.name == "clean"]
    assert list(deal("clean", [clean], "abc", 5)) == [Path(clean.dir).name]  # shared with any workflow of the same work


def test_a_pod_gets_its_stage_s_devices_and_the_profile_s_defaults() -> None:
    profile = load_profile("gpu")
    patch = pod_patch(profile, "pretrain", "train", Resources(8, 16.0), tag="v9")
    [main] = patch["containers"]
    assert main["image"] == "registry.example.com/argosy-train:v9"
    assert main["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert main["resources"]["limits"]["rdma/hca"] == "1"
    assert main["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"], "drop": ["ALL"]}
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}} in patch["volumes"]
    assert {"name": "NCCL_IB_HCA", "value": "mlx5"} in main["env"]
    assert {"name": "NCCL_NET", "value": "IB"} in main["env"]
    assert main["envFrom"] == [{"secretRef": {"name": "argosy-hub-token"}}]
    assert patch["nodeSelector"]
    assert patch["tolerations"]
    assert memory_mb(profile, "pretrain", Resources(8, 16.0)) == 256 * 1024
    light = pod_patch(profile, "clean", "data", Resources(2, 1.0))["containers"][0]
    assert "nvidia.com/gpu" not in json.dumps(light)
    assert light["image"].startswith("registry.example.com/argosy-data")


def test_a_stage_is_on_spot_machines_where_the_profile_says_and_saves_as_often_as_they_are_lost() -> None:
    resources = "resources.pretrain.spot=true"
    stages = {name: {node.name: node for node in lifecycle(compose("tiny", None, (resources, *more)))}["pretrain"]
              for name, more in (("spot", ()), ("own", ("pretrain.failure_rate=2",)))}
    assert [stages[name].config.failure_rate for name in ("spot", "own")] == [15, 2]
    assert stages["spot"].config.identity() == stages["own"].config.identity()
    profile = load_profile("gpu")
    with pytest.raises(InputError, match=r"resources\.pretrain\.spot is true, and the profile 'gpu' has no `spot`"):
        pod_patch(profile, "pretrain", "train", stages["spot"].resources)
    taint = {"key": "spot", "operator": "Exists"}
    cheap = profile.model_copy(update={"spot": Placement(node_selector={"spot": "true"}, tolerations=(taint,))})
    patch = pod_patch(cheap, "pretrain", "train", stages["spot"].resources)
    assert patch["nodeSelector"] == {**profile.stages["pretrain"].node_selector, "spot": "true"}
    assert patch["tolerations"] == [*profile.stages["pretrain"].tolerations, taint]


@pytest.mark.parametrize(("wrong", "named"), [
    ({"storage": {}}, "host_path"),
    ({"storage": {"uri": "s3://b/p"}}, "tracking.uri"),
    ({"storage": {"uri": "s3://b/p", "claim": "c"}, **TRACKED}, "give one of"),
    ({"storage": {"uri": "s3://b", "options": {"client_kwargs": {"aws_secret_access_key": "hunter2"}}}, **TRACKED},
     "client_kwargs.aws_secret_access_key: credentials"),
    ({"storage": {"uri": "s3://KEY:hunter2@b/p"}, **TRACKED}, "user before its bucket"),
    ({"storage": {"claim": "a"}, "stages": {"pretrian": {"cpu": "2"}}}, "pretrain"),
    ({"storage": {"claim": "a"}, "tracking": {"uri": "https://me:hunter2@mlflow.example.com"}}, "uri has a user"),
    ({"storage": {"claim": "a"}, "defaults": {"env": {"HF_TOKEN": "hunter2"}}}, "HF_TOKEN"),
    ({"storage": {"claim": "a"}, "stages": {"dpo": (bad := {"env": {"HF_TOKEN": "hunter2"}}), "sft": bad}},
     r"stages\.dpo is wrong: env has HF_TOKEN: .* \(so too stages\.sft\)$"),
    ({"storage": {"claim": "a"}, "defaults": {"devices": {"fabric": "efa"}}}, "vpc.amazonaws.com/efa: 1"),
    ({"storage": {"claim": "a"}, "defaults": {"devices": {"resource": "nvidia.com/mig-1g.10gb", "gpus": 2}}},
     "gpus is 2, allowed: 1 of nvidia.com/mig-1g.10gb"),
    ({"storage": {"claim": "a"}, "defaults": {"devices": {"resource": "huawei.com/npu", "fabric": "none"}}}, "HCCL"),
    ({"storage": {"claim": "a"}, "serving": {"model": "m", "most": 1}}, "most is 1, allowed: 2"),
    ({"storage": {"claim": "a"}, "nightly": {"webhook": "https://hooks.example.com/hunter2"}}, "webhook_secret"),
])
def test_a_wrong_profile_names_the_field(wrong: dict[str, Any], named: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(wrong))
    with pytest.raises(InputError, match=named) as error:
        load_profile(str(file))
    assert "hunter2" not in str(error.value)


def test_the_webhook_is_in_a_secret_that_the_judge_alone_reads() -> None:
    profile = Profile.model_validate({"storage": {"claim": "a"}, "nightly": {"webhook_secret": "hooks/url"}})
    spec = evaluate_template(profile).to_dict()["spec"]
    wanted = {"name": "ARGOSY_WEBHOOK", "valueFrom": {"secretKeyRef": {"name": "hooks", "key": "url"}}}
    having = [each["name"] for each in spec["templates"] if wanted in each.get("container", {}).get("env", [])]
    assert having == ["judge"]


def test_wrong_input_a_lacking_command_and_a_pod_that_a_policy_refuses_are_not_tried_again() -> None:
    spec = lifecycle_template(load_profile("laptop")).to_dict()["spec"]
    templates = {each["name"]: each for each in spec["templates"]}
    for name in ("plan", "step", "finish", "promote"):
        expression = templates[name]["retryStrategy"]["expression"]
        codes = expression.partition("[")[2].partition("]")[0]
        assert set(codes.split(", ")) == {"'1'", "'2'", "'126'", "'127'"}  # 128 is a node's fault
    assert "not (lastRetry.exitCode == '-1' && lastRetry.message matches" in expression
    pattern = re.search(r"message matches '(denied[^']*)'", expression)
    assert pattern
    for words, refused in (
        ('admission webhook "validate.kyverno.svc-fail" denied the request: resource Pod/argosy/x was blocked', True),
        ("pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", True),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest": hostPath volumes', True),
        ('pods "x" is forbidden: exceeded quota: q, requested: cpu=4', False)):
        assert bool(re.search(pattern[1], words)) is refused


def test_a_host_s_store_is_mounted_alone_and_its_mutexes_are_its_own() -> None:
    def step(**storage: str) -> tuple[dict[str, Any], dict[str, Any]]:
        spec = lifecycle_template(Profile.model_validate({"storage": storage})).to_dict()["spec"]
        return spec, next(each for each in spec["templates"] if each["name"] == "step")

    spec, template = step(host_path="/var/lib/argosy")
    assert spec["volumes"][0]["hostPath"]["path"] == "/var/lib/argosy/runs"
    assert template["container"]["volumeMounts"][0]["mountPath"] == "/store/runs"
    stores = ({"claim": "a"}, {"claim": "b"}, {"claim": "a", "directory": "tests"})
    names = {step(**store)[1]["synchronization"]["mutexes"][0]["name"] for store in stores}
    assert len(names) == len(stores)
    assert all("{{inputs.parameters.batch}}" in name for name in names)


class Deployments:
    """An API server with one Deployment."""

    def __init__(self) -> None:
        self.annotations: dict[str, str] = {}
        self.patched = 0

    def ask(self, method: str, path: str, body: Any = None, **_: object) -> Any:
        assert path == "/apis/apps/v1/namespaces/argosy/deployments/argosy-serve"
        if method == "PATCH":
            self.annotations |= body["spec"]["template"]["metadata"]["annotations"]
            self.patched += 1
        return {"spec": {"template": {"metadata": {"annotations": self.annotations}}}}


def test_the_roll_follows_the_alias_and_only_where_pods_see_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    given, api = Profile.model_validate({"serving": {"model": "demo"}, "storage": {"claim": "c"}}), Deployments()
    assert given.serving
    for path, patched in (("/store/runs/sft-1/a", 1), ("/store/runs/sft-1/a", 1), ("/store/runs/sft-2/b", 2)):
        monkeypatch.setattr(serving, "named_by", lambda *_, path=path: Version("demo", "3", "key", path))
        serving.roll(given, given.serving, api)  # type: ignore[arg-type]
        assert (api.annotations, api.patched) == ({"argosy/checkpoint": path.removeprefix("/store/runs/")}, patched)
    monkeypatch.setattr(serving, "named_by", lambda *_: Version("demo", "4", "key", "/home/me/runs/sft-3"))
    with pytest.raises(InputError, match="not below /store/runs/: argosy-serve stays as it is"):
        serving.roll(given, given.serving, api)  # type: ignore[arg-type]
    assert api.patched == 2
