"""argo-install, built by kustomize on a copy of Argo's release without a network."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from workflows import cli
from workflows.argo.manifests.documents import write_manifests
from workflows.argo.pod.serving import CHECKPOINT
from workflows.argo.profile.profile import SHIPPED, load_profile

ROOT = Path(__file__).parents[3]
INSTALL = ROOT / "argo-install"
RELEASE = ROOT / "tests" / "argo_release" / "manifests"
REMOTE = re.compile(r"https://github\.com/argoproj/argo-workflows//manifests/(\S+)\?ref=(\S+)")
CLUSTER_WIDE = {"Namespace", "PriorityClass", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}


@pytest.fixture(scope="module", params=["laptop", "production", "bucket"])
def built(request, tmp_path_factory) -> list[dict[str, Any]]:
    """All objects of an overlay but the CRDs."""
    kubectl = shutil.which("kubectl")
    if not kubectl:
        pytest.skip("kubectl is not installed")
    folder = tmp_path_factory.mktemp("install")
    shutil.copytree(INSTALL, folder / "argo-install")
    shutil.copytree(RELEASE, folder / "manifests")
    crds = folder / "manifests/base/crds/full/kustomization.yaml"
    crds.parent.mkdir(parents=True)
    crds.write_text("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n")
    for path in (folder / "argo-install/base").rglob("kustomization.yaml"):
        path.write_text(REMOTE.sub(r"../../../manifests/\1", path.read_text()))
    ended = subprocess.run([kubectl, "kustomize", str(folder / "argo-install/overlays" / request.param)],
                           capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return list(yaml.safe_load_all(ended.stdout))


def _find(built: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    [found] = [each for each in built if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def _workloads(built: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (each for each in built if each["kind"] in ("Deployment", "StatefulSet"))


def _spec(workload: Mapping[str, Any]) -> dict[str, Any]:
    return workload["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", sorted(path.stem for path in SHIPPED.glob("*.yaml")))
def test_generated_manifests_are_current(name, tmp_path):
    """If this fails: make manifests, and let an API server take them (kubectl apply --dry-run=server -k)."""
    write_manifests(load_profile(name), tmp_path)
    kept = {path.name: path.read_text() for path in (INSTALL / "generated" / name).iterdir()}
    assert kept == {path.name: path.read_text() for path in tmp_path.iterdir()}


def test_remote_bases_are_of_one_release():
    found = [match for path in INSTALL.rglob("kustomization.yaml") for match in REMOTE.findall(path.read_text())]
    assert len(found) == 5
    assert {version for _, version in found} == {"v4.1.2"}
    assert "github.com" not in "".join(
        REMOTE.sub("", path.read_text()) for path in INSTALL.rglob("*.yaml") if "generated" not in path.parts)


def test_no_workload_runs_as_root_or_with_more_than_it_needs(built):
    workloads = list(_workloads(built))
    assert len(workloads) in (5, 6)  # argosy-serve, where the profile has `serving`
    for workload in workloads:
        name, spec = workload["metadata"]["name"], _spec(workload)
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert {"requests", "limits"} <= set(container["resources"]), name


def test_nobody_has_rights_in_the_whole_cluster_and_only_who_talks_to_kubernetes_has_a_token(built):
    assert not [each for each in built if each["kind"].startswith("ClusterRole")]
    namespaces = {each["metadata"].get("namespace") for each in built if each["kind"] not in CLUSTER_WIDE}
    assert namespaces == {"argo", "argosy"}
    with_token = {
        each["metadata"]["name"] for each in _workloads(built) if _spec(each).get("automountServiceAccountToken", True)}
    assert with_token == {"workflow-controller", "argo-server", "argosy-reconciler"}
    metadata = [each["metadata"] for each in built if each["kind"] == "ServiceAccount"]
    bound = [subject for each in built if each["kind"] == "RoleBinding" for subject in each["subjects"]]
    assert bound
    assert {(each["namespace"], each["name"]) for each in bound} <= {(m["namespace"], m["name"]) for m in metadata}


def test_no_secret_has_a_value_and_those_that_are_named_are_documented(built):
    assert [each for each in built if each["kind"] == "Secret" and {"data", "stringData"} & set(each)] == []
    text = yaml.safe_dump_all(built)
    named = set(re.findall(r"(?:secretKeyRef|secretRef):\s*(?:key: \S+\s+)?name: (\S+)", text))
    named |= set(re.findall(r"(?:Secret|clientId): \{name: ([a-z0-9-]+)", text))
    assert "argosy-s3" in named
    page = (ROOT / "docs" / "install.md").read_text()
    assert {name for name in named if f"`{name}`" not in page} == set()


def test_names_that_templates_use_exist(built):
    """Semaphores, priority classes, the store's claim and the reconciler's profile are those of the profile."""
    [found] = [each for each in built if "argosy/profile" in each["metadata"].get("labels", {})]
    [(file, text)] = found["data"].items()
    profile = load_profile(Path(file).stem)
    assert profile.model_dump(mode="json", exclude_unset=True) == yaml.safe_load(text)
    names = {(each["kind"], each["metadata"]["name"]): each for each in built}
    for stage in profile.stages.values():
        if stage.slot:
            config_map, key = stage.slot.split("/")
            assert key in names["ConfigMap", config_map]["data"]
    for priority in profile.priorities:
        assert ("PriorityClass", priority) in names
    if profile.storage.claim:
        assert ("PersistentVolumeClaim", profile.storage.claim) in names
    reconciler = _spec(names["Deployment", "argosy-reconciler"])
    assert {"name": "PROFILE", "value": profile.name} in reconciler["containers"][0]["env"]
    maps = [each["configMap"]["name"] for each in reconciler["volumes"] if "configMap" in each]
    assert maps == [found["metadata"]["name"]]
    host = [each["hostPath"]["path"] for each in reconciler["volumes"] if "hostPath" in each]
    assert host == ([profile.storage.node_directory] if profile.storage.host_path else [])


def test_a_reconciler_of_a_bucket_has_its_credentials_and_a_volume_of_its_own(built):
    reconciler = _spec(_find(built, "Deployment", "argosy-reconciler"))
    [container] = reconciler["containers"]
    profile = load_profile(next(each["value"] for each in container["env"] if each["name"] == "PROFILE"))
    [store] = [each for each in reconciler["volumes"] if each["name"] == "store"]
    assert ("emptyDir" in store) == bool(profile.storage.uri)
    assert len(store) == 2
    secrets = [each["secretRef"]["name"] for each in container.get("envFrom", [])]
    assert secrets == (list(profile.defaults.secrets) if profile.storage.uri else [])
    policies = {each["metadata"]["name"]: each["spec"] for each in built if each["kind"] == "NetworkPolicy"}
    if policies:
        ports = {port["port"] for rule in policies["reconciler"]["egress"] for port in rule["ports"]}
        assert {5000, 9000} <= ports


def test_pods_are_held_to_restricted_or_to_our_own_rules(built):
    level = _find(built, "Namespace", "argosy")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    actions = {each["spec"]["policyName"]: each["spec"]["validationActions"] for each in built
               if each["kind"] == "ValidatingAdmissionPolicyBinding"}
    assert level == "restricted" or actions["argosy-pods"] == ["Deny"]
    assert actions["argosy-rolls"] == ["Deny"]
    assert _find(built, "Namespace", "argo")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_reconciler_s_policy_holds_all_of_the_serving_deployment_but_its_checkpoint(built):
    """tests/cluster/test_serving.py asks an API server."""
    from kubernetes.client import V1DeploymentSpec

    spec = _find(built, "ValidatingAdmissionPolicy", "argosy-rolls")["spec"]
    [condition] = spec["matchConditions"]
    account = _spec(_find(built, "Deployment", "argosy-reconciler"))["serviceAccountName"]
    assert condition["expression"].endswith(f":{account}'")
    held = " ".join(each["expression"] for each in spec["validations"])
    named = {*re.findall(r"object\.spec\.\??(\w+) == oldObject\.spec\.\??\1\b", held), "template"}
    assert named == {*V1DeploymentSpec.attribute_map.values()}
    assert f"k == '{CHECKPOINT}'" in held


def test_only_a_laptop_mounts_directories_of_a_node_takes_any_template_and_pulls_from_nowhere(built):
    is_laptop = any(each["metadata"]["name"] == "s3" for each in _workloads(built))
    mounts = any("hostPath" in each for workload in _workloads(built) for each in _spec(workload).get("volumes", []))
    data = _find(built, "ConfigMap", "workflow-controller-configmap")["data"]
    strict = yaml.safe_load(data.get("workflowRestrictions", "{}")) == {"templateReferencing": "Strict"}
    assert (mounts, strict) == (is_laptop, not is_laptop)
    ours = [each for each in _workloads(built) if _spec(each)["containers"][0]["image"].find("argosy-") >= 0]
    assert len(ours) >= 2
    secrets = [_spec(each).get("imagePullSecrets", []) for each in ours]
    assert secrets == [[] if is_laptop else [{"name": "argosy-registry"}]] * len(ours)


def laptop(folder: Path, command: str, kubectl: str) -> subprocess.Popen[str]:
    """laptop.sh where `kubectl` is this shell script."""
    (folder / "kubectl").write_text(f"#!/bin/sh\n{kubectl}\n")
    (folder / "kubectl").chmod(0o755)
    env = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "ARGOSY_CLUSTER": "current"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([INSTALL / "laptop.sh", command], env=env, text=True, **pipes)


@pytest.mark.parametrize(("answer", "deleted"), [("other\n", False), ("", False), ("mine\n", True)])
def test_laptop_script_deletes_nothing_of_a_cluster_that_was_not_meant(answer, deleted, tmp_path):
    with laptop(tmp_path, "down", 'echo "$@" >> "$0.log"\n[ "$2" != current-context ] || echo mine') as script:
        said = script.communicate(answer)[1]
    assert script.returncode == (0 if deleted else 2)
    assert "cluster mine" in said
    assert ("delete" in (tmp_path / "kubectl.log").read_text()) is deleted


def test_commands_of_the_installation_page_are_accepted():
    page = (ROOT / "docs" / "install.md").read_text()
    commands = re.findall(r"^\s*argosy ((?:doctor|submit|manifests) [^`\n]*)$", page, re.MULTILINE)
    assert len(commands) >= 3
    for command in commands:
        cli._parse(command.partition(" #")[0].split())
