"""A store in an object store, for what comes after the steps: the reconciler, judgement, promotion."""

import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from argosy.core.store.step_files import OUTPUTS, STORE_URI
from tests.argo_fixtures import submitted
from workflows.argo.client.api import Summary
from workflows.argo.handoff import FOLDER
from workflows.argo.objectstore.files import Remote
from workflows.argo.objectstore.mirror import Mirror
from workflows.argo.objectstore.node import RemoteNode
from workflows.argo.objectstore.pods import judging, promoting
from workflows.argo.pod.finish import RemoteReconciler
from workflows.argo.profile.profile import Profile

pytestmark = pytest.mark.usefixtures("sent_here")
PIPELINE, SFT, EVALUATION = "0123456789ab", "sft-0123456789ab", "evaluate-0123456789ab"
JUDGE = "regressions-0123456789ab"
DONE = json.dumps({"outputs": {}, "made_from": {}})


def client(**phases: str) -> Mock:
    """One that knows these workflows."""
    return Mock(spec=["list"], namespace="argosy",
                **{"list.return_value": [Summary(name, "", phase, "") for name, phase in phases.items()]})


@pytest.fixture
def profile(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    storage = {"uri": bucket, "path": str(tmp_path / "mirror"), "directory": "store"}
    uri = f"sqlite:///{tmp_path}/mirror/store/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv(STORE_URI, bucket)  # which the pods of these tests set in this process
    return Profile.model_validate({"storage": storage, "tracking": {"uri": uri}})


def remote(profile: Profile) -> Remote:
    return Remote(profile.storage.uri, {})


def pushed(profile: Profile, workflow: str) -> None:
    """A plan and a step that was killed, in the bucket alone."""
    store = Path(profile.storage.root)
    submitted(store, workflow, PIPELINE)
    Mirror(remote(profile), store).push(FOLDER, ".pipelines", SFT)
    remote(profile).write(f"{SFT}/.lease", json.dumps({"owner": f"{workflow}/{SFT}", "token": "t"}).encode())
    shutil.rmtree(store)


def test_the_reconciler_tells_how_a_workflow_ended_and_removes_what_is_old(profile: Profile) -> None:
    pushed(profile, "wf")
    assert RemoteReconciler(profile, client(wf="Running"), keep_s=1e6).sweep() == 0
    assert f"{FOLDER}/wf/finished.json" not in remote(profile).list()
    assert RemoteReconciler(profile, client(), keep_s=1e6).sweep() == 0  # deleted
    assert json.loads(remote(profile).read(f"{FOLDER}/wf/finished.json") or b"") == {"status": "KILLED"}
    spool = (remote(profile).read(f"{SFT}/tracking/spool.jsonl") or b"").decode().splitlines()
    assert [json.loads(line)["value"] for line in spool if '"kind":"status"' in line] == ["RUNNING", "KILLED"]
    assert f"{SFT}/.lease" not in remote(profile).list()

    assert RemoteReconciler(profile, client(wf="Running"), keep_s=1e6).sweep() == 0  # argo retry: it is to end again
    assert f"{FOLDER}/wf/finished.json" not in remote(profile).list()
    remote(profile).write(f"{FOLDER}/wf/finished.json", b'{"status": "KILLED"}')
    RemoteReconciler(profile, client(), keep_s=-10).sweep()
    assert not remote(profile).list(FOLDER)


def test_the_reconciler_leaves_a_night_alone_that_is_being_planned(profile: Profile) -> None:
    remote(profile).write(f"{FOLDER}/planning/night.json", b"{}")  # plan.json comes in a moment
    assert RemoteReconciler(profile, client(), keep_s=-10).sweep() == 0
    assert f"{FOLDER}/planning/night.json" in remote(profile).list(FOLDER)


def test_a_judgement_finds_the_night_s_evaluations_and_its_own_results_stay(profile: Profile) -> None:
    store = Path(profile.storage.root)
    evaluation = store / EVALUATION
    evaluation.mkdir(parents=True)
    (evaluation / OUTPUTS).write_text(DONE)
    (evaluation / "items.parquet").write_text("rows")
    RemoteNode(remote(profile), store, EVALUATION).push()
    night = {"p": {"pairs": [{"new": [str(evaluation)], "reference_evaluations": []}]}}
    remote(profile).write(f"{FOLDER}/wf/night.json", json.dumps(night).encode())
    shutil.rmtree(store)
    with judging(profile, "wf"):
        assert (evaluation / "items.parquet").is_file()
        (store / JUDGE).mkdir()
        (store / JUDGE / OUTPUTS).write_text(DONE)
        (store / JUDGE / "report.html").write_text("worse")
        (store / ".nightly").mkdir()
        (store / ".nightly/told.json").write_text("{}")
    assert remote(profile).read(f"{JUDGE}/report.html") == b"worse"
    shutil.rmtree(store)
    with judging(profile, "wf-2"):
        assert (store / JUDGE / OUTPUTS).is_file()
        assert (store / ".nightly/told.json").is_file()
    assert remote(profile).read(f"{JUDGE}/report.html") == b"worse"  # not here, so not touched


def test_a_promotion_finds_the_comparison_and_the_checkpoints_configs(profile: Profile) -> None:
    pushed(profile, "wf")
    store, at = Path(profile.storage.root), remote(profile)
    at.write(f"{SFT}/{OUTPUTS}", DONE.encode())
    at.write(f"{SFT}/checkpoints/final/config.json", b"{}")
    at.write(f"{SFT}/checkpoints/final/model.safetensors", b"w" * (2**20 + 1))
    compare = "compare-0123456789ab"
    at.write(f"{compare}/{OUTPUTS}", DONE.encode())
    at.write(f"{compare}/run.json", json.dumps({"config": {"checkpoints": [str(store / SFT)]}}).encode())
    plan = json.loads(at.read(f"{FOLDER}/wf/plan.json") or b"")
    at.write(f"{FOLDER}/wf/plan.json", json.dumps({**plan, "report": str(store / compare)}).encode())
    at.write(f"{EVALUATION}/{OUTPUTS}", DONE.encode())
    at.write(f"{EVALUATION}/items.parquet", b"rows")
    at.write(f".pipelines/{PIPELINE}/config.json", b"{}")
    with promoting(profile, "wf") as fetch:
        assert (store / EVALUATION / OUTPUTS).is_file()  # so that it is found
        fetch([store / EVALUATION, Path("/elsewhere") / EVALUATION])
        assert (store / EVALUATION / "items.parquet").read_bytes() == b"rows"
        assert (store / f".pipelines/{PIPELINE}/config.json").is_file()  # which has the gate
        (store / ".promotions").mkdir()
        (store / ".promotions/evidence.json").write_text("{}")
        here = {str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()}
    assert {f"{compare}/{OUTPUTS}", f"{SFT}/checkpoints/final/config.json", f"{SFT}/tracking/spool.jsonl"} <= here
    assert not [name for name in here if name.endswith(".safetensors")]
    assert f"{SFT}/.lease" in at.list()  # the workflow goes on
    assert at.read(".promotions/evidence.json") == b"{}"
