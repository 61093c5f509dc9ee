"""A stage on several nodes as a JobSet: what its pods, its launcher and the template are, and what is refused."""

import json
import re
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from argosy.core.config.load import load
from argosy.core.errors import InputError, StepError
from argosy.core.nodes.bad import BAD, note_bad
from argosy.core.step.ranks.launcher import LOST
from argosy.core.step.ranks.member import join
from workflows.argo.attempts import elsewhere
from workflows.argo.client.view import view
from workflows.argo.handoff import Handoff, assign, deal, tasks_of
from workflows.argo.manifests.documents import manifests
from workflows.argo.pod.jobset import remake
from workflows.argo.pod.outputs import with_devices, write_outputs
from workflows.argo.profile.pods import NO_NODE, away
from workflows.argo.profile.profile import Profile
from workflows.argo.profile.queues import Kueue, Queue, Topology, Volcano
from workflows.argo.profile.settings import BadNodes, Devices, Nodes
from workflows.compose import compose, every_stage
from workflows.lifecycle import lifecycle
from workflows.plan import plan

TWO = ("resources.pretrain.nodes=2", "pretrain.global_batch_size=32")


@pytest.fixture
def profile() -> Profile:
    return Profile.model_validate({
        "name": "team", "storage": {"claim": "shared"}, "nodes": {"queue": "training", "annotations": {"net": "rail"}},
        "stages": {"pretrain": {"cpu": "32", "memory": "256Gi", "devices": {"gpus": 8, "rdma": {"rdma/hca": 1}},
                                "node_selector": {"gpu": "h100"}}}})  # fmt: skip


def outputs(profile: Profile, folder: Path, *overrides: str) -> dict[str, Any]:
    """The plan's output parameters."""
    planned = plan(lifecycle(with_devices(compose("tiny", None, overrides), profile)), folder, None, "pretrain")
    tasks = tasks_of(every_stage())
    batches = {task: deal(task, [node for node in nodes if node.to_run], "p", 10)
               for task, nodes in assign(planned.nodes, tasks).items()}  # fmt: skip
    Handoff(store=str(folder), line="", pipeline="", nodes={node.id: node.model_dump(mode="json") for node in
            planned.nodes}, batches={name: each for dealt in batches.values() for name, each in dealt.items()}
            ).write("lifecycle-abcde")  # fmt: skip
    arguments = Namespace(outputs=folder / "o", image_tag="v1", workflow="lifecycle-abcde", priority="high")
    write_outputs(planned, tasks, batches, profile, arguments, "")
    return {path.name: json.loads(path.read_text()) for path in (folder / "o").iterdir() if path.name != "summary"}


def test_each_node_has_a_pod_with_the_stages_devices_and_the_launcher_has_none(profile: Profile, tmp_path: Path
                                                                               ) -> None:
    given = outputs(profile, tmp_path, "resources.pretrain.nodes=4", "pretrain.global_batch_size=32")
    jobset = json.loads(given["jobsets"]["pretrain"])
    assert jobset["metadata"]["generateName"] == "a-lifecycle-abcde-pretrain-__ATTEMPT__-"
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert (job["parallelism"], job["completions"], job["completionMode"]) == (4, 4, "Indexed")
    pod, main = job["template"]["spec"], job["template"]["spec"]["containers"][0]
    assert main["resources"]["limits"] == {"memory": f"{256 * 1024}Mi", "nvidia.com/gpu": "8", "rdma/hca": "1"}
    assert (pod["nodeSelector"], pod["priorityClassName"]) == ({"gpu": "h100"}, "high")
    assert job["template"]["metadata"]["annotations"] == {"net": "rail"}
    assert main["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"], "drop": ["ALL"]}
    launcher = json.loads(given["patches"]["pretrain"])
    assert "nvidia.com/gpu" not in launcher["containers"][0]["resources"]["limits"]
    assert "nodeSelector" not in launcher
    assert int(given["memory"]["pretrain"]) < 1024
    assert list(given["jobsets"]) == ["pretrain"]


def test_pods_of_a_stage_are_near_each_other_and_their_network_card(profile: Profile, tmp_path: Path) -> None:
    devices = Devices(gpus=8, resource="amd.com/gpu", fabric="roce", host_network=True, numa=True)
    placed = profile.stages["pretrain"].model_copy(update={"cpu": "31500m", "devices": devices})
    racks = Nodes(near=("zone", "rack"))
    given = outputs(profile.model_copy(update={"nodes": racks, "stages": {"pretrain": placed}}), tmp_path, *TWO)
    pod = json.loads(given["jobsets"]["pretrain"])["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    spec, main = pod["spec"], pod["spec"]["containers"][0]
    # Guaranteed, in whole cores: then the kubelet gives cores of their own, of the devices' NUMA node
    assert main["resources"]["requests"] == main["resources"]["limits"]
    assert (main["resources"]["limits"]["cpu"], main["resources"]["limits"]["amd.com/gpu"]) == ("32", "8")
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert {"name": "ARGOSY_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}} in main["env"]
    terms = spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [(each["weight"], each["podAffinityTerm"]["topologyKey"]) for each in terms] == [(50, "zone"), (100, "rack")]
    [selector] = {json.dumps(each["podAffinityTerm"]["labelSelector"]["matchLabels"]) for each in terms}
    assert json.loads(selector).items() <= pod["metadata"]["labels"].items()
    assert "hostNetwork" not in json.loads(given["patches"]["pretrain"])  # of the launcher


def test_pods_keep_away_from_the_nodes_that_failed_last(profile: Profile, tmp_path: Path,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    names = ["gpu-1.example.com", "gpu-2", "gpu-3", "gpu-4", "GPU_5", "gpu-6"]
    for age, name in enumerate(names):
        note_bad(tmp_path / "run", "slow", {"bad": {"0": "slow"}}, [name])
        (path := tmp_path / BAD / f"{name}.json").write_text(json.dumps(
            {**json.loads(path.read_text()), "time": time.time() - 4.5 * 3600 * (age + 0.5)}))
    profile = profile.model_copy(update={"bad_nodes": BadNodes(most=3)})
    given = outputs(profile, tmp_path, *TWO)
    expected = away([NO_NODE, *names[:3]])["affinity"]
    pod = json.loads(given["jobsets"]["pretrain"])["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["affinity"] == json.loads(given["patches"]["pretrain"])["affinity"] == expected
    assert {"key": "metadata.name", "operator": "NotIn", "values": [names[0]]} in given["avoid"]
    assert "pods may be on gpu-4, GPU_5, which failed" in capsys.readouterr().out
    [key] = re.findall(r"'(.matchFields.*?)'", elsewhere("x"))[:1]  # what Argo looks for in the next attempt's
    rest = re.sub(key, '"matchFields": []', given["patches"]["pretrain"])
    assert json.loads(rest)["affinity"] == json.loads(re.sub(key, '"matchFields": []', json.dumps(expected)))
    assert "gpu-" not in rest
    off = profile.model_copy(update={"bad_nodes": BadNodes(fresh_s=0)})
    assert "affinity" not in json.loads(outputs(off, tmp_path, *TWO)["patches"]["pretrain"])


def test_the_template_waits_for_the_jobset_and_may_make_it(profile: Profile) -> None:
    made = manifests(profile)
    templates = {each["name"]: each for each in made["lifecycle"][0]["spec"]["templates"]}
    remake, create, wait = (step[0]["template"] for step in templates["nodes"]["steps"])
    assert templates[wait]["resource"]["successCondition"] == "status.terminalState == Completed"
    assert "successCondition" not in templates[create]["resource"]  # a pod that waits may be evicted
    assert templates[remake]["container"]["args"][-1] == "--attempt={{inputs.parameters.attempt}}"
    tasks = {task["name"]: task for task in templates["main"]["dag"]["tasks"]}
    assert {"pretrain-nodes", "sft-nodes"} <= tasks.keys()
    assert tasks["pretrain-nodes"]["depends"] == tasks["pretrain"]["depends"]
    assert "clean-nodes" not in tasks
    rules = {each["metadata"]["name"]: each["rules"] for each in made["rights"] if each["kind"] == "Role"}
    assert any("jobsets" in rule["resources"] for rule in rules[profile.executor_account])


def test_a_jobset_after_one_whose_pod_lacked_memory_asks_for_more(profile: Profile, tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """And not after one that had no launcher; a workflow that is retried begins anew."""
    profile = profile.model_copy(update={"storage": profile.storage.model_copy(update={"path": str(tmp_path)})})
    given = outputs(profile, tmp_path / "runs", *TWO)
    [batch] = given["run-pretrain"]
    state = tmp_path / "runs" / batch / "state"
    state.mkdir(parents=True)
    monkeypatch.setenv("ARGOSY_JOBSET", given["jobsets"]["pretrain"])

    def memory(attempt: int) -> str:
        arguments = Namespace(workflow="lifecycle-abcde", batch=batch, attempt=str(attempt), outputs=tmp_path / "o")
        assert remake(profile, arguments) == 0
        (state / f"joined-{attempt}").touch()  # its pods start
        made = json.loads((tmp_path / "o/jobset").read_text())
        assert re.fullmatch(f"a-lifecycle-abcde-pretrain-{attempt}-.{{5}}", made["metadata"]["name"])
        job = made["spec"]["replicatedJobs"][0]["template"]["spec"]
        assert job["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"] == [1, 2, 137]
        main = job["template"]["spec"]["containers"][0]
        assert main["args"][-2:] == ["--attempt", str(attempt)]
        assert main["resources"]["limits"]["memory"] == main["resources"]["requests"]["memory"]
        return str(main["resources"]["limits"]["memory"])

    assert [memory(attempt) for attempt in (0, 1)] == [f"{256 * 1024}Mi", f"{384 * 1024}Mi"]
    monkeypatch.setenv("ARGOSY_JOIN_SECONDS", "0.01")
    monkeypatch.setenv("ARGOSY_JOINED", str(state / "joined-1"))
    with pytest.raises(StepError, match="names no launcher that answers"):
        join("pretrain", state / "launcher.json")
    assert [memory(attempt) for attempt in (2, 3, 4)] == [f"{size}Mi" for size in (384 * 1024, 576 * 1024, 864 * 1024)]
    arguments = Namespace(workflow="lifecycle-abcde", batch=batch, attempt="5", outputs=tmp_path / "o")
    assert remake(profile, arguments) == 0
    assert (tmp_path / "o/jobset").read_text() == ""
    assert "4 of them though" in (state / LOST).read_text()
    assert memory(0) == f"{256 * 1024}Mi"
    note_bad(tmp_path / "runs/run", "slow", {"bad": {"0": "slow"}}, ["gpu-7"])
    assert not (state / LOST).exists()
    assert memory(2) == f"{384 * 1024}Mi"  # of the second attempt, which was refused, no pod came
    assert '"values": ["gpu-7"]' in (tmp_path / "o/jobset").read_text()


QUEUES: list[tuple[Queue, dict[str, Any], dict[str, Any], dict[str, Any], str | None]] = [
    (None, {}, {}, {}, None),
    (Kueue(name="all", topology=Topology(required="rack")), {"kueue.x-k8s.io/queue-name": "all"},
     {"kueue.x-k8s.io/podset-required-topology": "rack"}, {}, None),
    (Volcano(kind="Volcano", name="all"), {}, {"scheduling.volcano.sh/queue-name": "all"},
     {"scheduling.volcano.sh/group-min-member": "2"}, "volcano"),
]  # labels of what is admitted, annotations of pods, and of their Job, scheduler


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
@pytest.mark.parametrize(("queue", "labels", "of_pods", "of_job", "scheduler"), QUEUES)
def test_a_queue_finds_what_it_reads_where_it_reads_it(
    kind: str, queue: Queue, labels: dict[str, Any], of_pods: dict[str, Any], of_job: dict[str, Any],
    scheduler: str | None, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a stage, a TrainJob's in a runtime of its own; and of pods that are alone, such as evaluations."""
    changed = {**profile.model_dump(exclude_unset=True), "storage": {"claim": "shared", "path": str(tmp_path)},
               "nodes": {"kind": kind, "queue": queue}, "stages": {"evaluate": {"queued": queue is not None}}}
    profile = Profile.model_validate(changed)
    given = outputs(profile, tmp_path / "runs", *TWO)
    monkeypatch.setenv("ARGOSY_JOBSET", given["jobsets"]["pretrain"])
    [batch] = given["run-pretrain"]
    remake(profile, Namespace(workflow="lifecycle-abcde", batch=batch, attempt="0", outputs=tmp_path / "o"))
    runtime, owner = (json.loads((tmp_path / "o" / name).read_text()) for name in ("runtime", "jobset"))
    jobset = runtime["spec"]["template"] if kind == "TrainJob" else owner
    if kind == "TrainJob":
        assert owner["spec"] == {"runtimeRef": {"kind": "TrainingRuntime", "name": runtime["metadata"]["name"]}}
        assert not labels.keys() & (jobset["metadata"]["labels"] | runtime["metadata"]["labels"]).keys()
    assert (owner["kind"], owner["metadata"]["labels"].items() >= labels.items()) == (kind, True)
    job = jobset["spec"]["replicatedJobs"][0]["template"]
    pod = job["spec"]["template"]
    assert (job["metadata"]["annotations"], job["spec"]["parallelism"]) == (of_job, 2)
    assert (pod["metadata"]["annotations"], pod["spec"].get("schedulerName")) == (of_pods, scheduler)
    templates = {each["name"]: each for each in manifests(profile)["lifecycle"][0]["spec"]["templates"]}
    alone = templates["step-queued" if queue else "step"]
    own = {key: value for key, value in of_pods.items() if "topology" not in key}
    found = alone.get("metadata", {}).get("labels", {}), alone.get("metadata", {}).get("annotations", {})
    assert (*found, alone.get("schedulerName")) == (labels, own, scheduler)
    assert {task["template"] for task in templates["main"]["dag"]["tasks"] if task["name"].startswith(
        ("evaluate", "pretrain"))} == {"step", "nodes", alone["name"]}  # fmt: skip


def test_a_train_job_is_waited_for_and_may_be_made(profile: Profile) -> None:
    made = manifests(profile.model_copy(update={"nodes": Nodes(kind="TrainJob")}))
    templates = {each["name"]: each for each in made["lifecycle"][0]["spec"]["templates"]}
    assert [step[0]["name"] for step in templates["nodes"]["steps"]] == ["remake", "runtime", "create", "wait"]
    assert "conditions.1.type == Failed" in templates["nodes-wait"]["resource"]["failureCondition"]
    [rules] = [each["rules"] for each in made["rights"] if each["kind"] == "Role" and "executor" in str(each)][:1]
    assert {"trainjobs", "trainingruntimes"} <= {name for rule in rules for name in rule["resources"]}


def test_the_attempts_of_a_jobset_are_one_unit_to_whoever_watches() -> None:
    kinds = {"": ("Retry", "Running"), "(0)": ("Steps", "Failed"), "(0)[1].create": ("Pod", "Failed"),
             "(1)": ("Steps", "Running"), "(1)[0].remake": ("Pod", "Running")}
    nodes = {name: {"id": name, "name": f"wf.pretrain-nodes{name}", "type": kind, "phase": phase,
                    "children": ["(0)", "(1)"] if kind == "Retry" else []} for name, (kind, phase) in kinds.items()}
    [task] = view({"metadata": {"name": "wf"}, "status": {"nodes": nodes}}).tasks
    assert (task.name, task.state, len(task.units)) == ("pretrain-nodes", "running", 1)


@pytest.mark.parametrize(("change", "overrides", "words"), [
    ({"nodes": {"queue": {"name": "all", "topology": {}}}}, (), "give one of required and preferred"),
    ({"nodes": {"topology": {"required": "rack"}}}, (), r"nodes\.topology is not a field"),
    ({"nodes": {"queue": {"kind": "Volcano", "topology": {"required": "rack"}}}}, (), "topology is one of Kueue"),
    ({"nodes": {"queue": {"kind": "Slurm"}}}, (), "kind is 'Slurm', allowed: Kueue, Volcano"),
    ({"nodes": {}, "stages": {"evaluate": {"queued": True}}}, (), r"stages\.evaluate\.queued is true, and the profile"),
    ({"nodes": None}, (), "has no `nodes`: install JobSet"),
    ({"storage": {"uri": "s3://bucket/x"}, "tracking": {"uri": "http://mlflow:5000"}}, (), "a claim that many pods"),
    ({}, ("resources.clean.nodes=2",), r"resources\.clean\.nodes is 2, allowed: 1, as clean runs as one process"),
    ({}, ("resources.sft.gpus=4", "sft.min_processes=3"), r"sft\.min_processes is 3, and no number of proc"),
    ({}, ("resources.sft.gpus=4", "sft.min_processes=5"), r"sft\.min_processes is 5, allowed: up to .*, which is 4"),
])
def test_what_a_cluster_cannot_do_is_refused_by_the_plan(change: dict[str, Any], overrides: tuple[str, ...], words: str,
                                                         profile: Profile, tmp_path: Path) -> None:
    def planned() -> dict[str, Any]:
        changed = load(Profile, [{**profile.model_dump(exclude_unset=True), **change}])
        return outputs(changed, tmp_path, *TWO, *overrides)

    with pytest.raises(InputError, match=words):
        planned()
