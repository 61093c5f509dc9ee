"""The lifecycle on a real controller: the laptop's bytes, one pod the second time, and only what changed."""

from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, pod_nodes
from tests.store_comparison import differences

pytestmark = pytest.mark.cluster


def ran(cluster: Cluster, name: str) -> list[str]:
    """Tasks of a workflow that had pods, by their batches."""
    return sorted({node["displayName"].partition("(")[0] for node in pod_nodes(cluster.get(name))})


def test_the_same_bytes_as_on_the_laptop_then_one_pod_then_only_what_changed(
    cluster: Cluster, store: Path, laptop: Path
) -> None:
    name = cluster.submit()
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    assert differences(store, laptop) == []
    assert differences(laptop, store) == []

    again = cluster.submit()
    assert cluster.wait(again)["status"]["phase"] == "Succeeded"
    assert ran(cluster, again) == ["plan"]

    changed = cluster.submit(overrides="sft.learning_rate=1e-4")
    assert cluster.wait(changed)["status"]["phase"] == "Succeeded"
    after_sft = {"sft", "twin", "dpo", "reward-model", "rlhf", "compare"}
    evaluations = {f"evaluate-{stage}" for stage in ("sft", "twin", "dpo", "rlhf")}
    shown = {"show"} if cluster.profile.artifacts else set()
    assert set(ran(cluster, changed)) == {"plan", "finish"} | after_sft | evaluations | shown


def test_a_range_that_is_not_possible_fails_in_the_plan_with_the_laptop_s_words(cluster: Cluster, store: Path) -> None:
    cases = {"sft.learning_rat=1": "learning_rate", "sft.epochs=many": "epochs", "nonsense": "stage.field=value"}
    for overrides, expected in cases.items():
        ended = cluster.wait(cluster.submit(overrides=overrides))
        assert ended["status"]["phase"] == "Failed"
        nodes = list(pod_nodes(ended))
        assert {node["templateName"] for node in nodes} <= {"plan", "finish"}
        [plan] = [node for node in nodes if node["templateName"] == "plan"]  # one: wrong input is not tried again
        assert expected in plan["message"]


def test_pods_have_no_rights_and_none_runs_as_root(cluster: Cluster, store: Path) -> None:
    name = cluster.submit(to="data")
    cluster.running(name, "data")
    for pod in cluster.pods(name):
        assert pod.spec.security_context.run_as_non_root
        assert pod.spec.security_context.run_as_user > 0
        mounts = {each.name: each for each in pod.spec.containers if each.name == "main"}["main"].volume_mounts
        assert not [mount for mount in mounts if "serviceaccount" in mount.mount_path]
        for container in [*pod.spec.containers, *(pod.spec.init_containers or [])]:
            security = container.security_context
            assert security is None or security.run_as_user != 0
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize("account", ["service_account", "executor_account"])
def test_the_token_of_a_step_s_account_may_not_read_secrets_or_make_pods(cluster: Cluster, account: str) -> None:
    from kubernetes import client

    name = getattr(cluster.profile, account)
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = client.CoreV1Api().create_namespaced_service_account_token(name, cluster.namespace, request).status.token
    ours, own = client.Configuration.get_default_copy(), client.Configuration()
    own.host, own.ssl_ca_cert, own.api_key = ours.host, ours.ssl_ca_cert, {"BearerToken": f"Bearer {token}"}
    api = client.CoreV1Api(client.ApiClient(own))
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name="intruder"),
        spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="none")]),
    )
    for forbidden in (
        lambda: api.list_namespaced_secret(cluster.namespace),
        lambda: api.create_namespaced_pod(cluster.namespace, pod),
        lambda: api.list_namespaced_pod(cluster.namespace),
    ):
        with pytest.raises(client.ApiException) as refused:
            forbidden()
        assert refused.value.status == 403
