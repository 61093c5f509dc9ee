"""Nodes that failed: their records in a bucket, the webhook that is told of them, and their cordons."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from argosy.core.nodes.bad import BAD, bad_nodes, note_bad
from tests.nightly_fixtures import webhook
from workflows.argo.objectstore.pods import mirror_of, planning
from workflows.argo.pod.nodes import MARK, mark_nodes, tell
from workflows.argo.profile.profile import Profile
from workflows.cli import main


def note(store: Path, node: str) -> None:
    note_bad(store / "pretrain-0123456789ab", "the check failed", {"cause": "node", "bad": {"3": "slow"}}, [node] * 4)


def test_a_record_of_a_bucket_reaches_the_next_plan_until_it_is_cleared(bucket: str, tmp_path: Path,
                                                                        capsys: pytest.CaptureFixture[str]) -> None:
    profile = Profile.model_validate({"tracking": {"uri": "http://mlflow:5000"}, "storage": {
        "uri": bucket, "path": str(tmp_path / "mirror"), "directory": "store"}})
    root = Path(profile.storage.root)
    mirror = mirror_of(profile)
    note(root, "gpu-7")
    mirror.push(BAD)
    shutil.rmtree(root)
    with planning(profile, "wf"):
        assert [each["node"] for each in bad_nodes(root)] == ["gpu-7"]
    assert main(["doctor", "bad", "--store", bucket]) == 0
    assert "  gpu-7  pretrain-0123456789ab rank 3, node: slow\n" in capsys.readouterr().out
    assert main(["doctor", "--clear", "gpu-7", "--store", bucket]) == 0
    assert bad_nodes(bucket) == []
    assert main(["doctor", "--clear", "gpu-7", "--store", bucket]) == 2
    assert f"node 'gpu-7' has no record in {bucket}, which has: none" in capsys.readouterr().err


def test_a_webhook_is_told_of_each_record_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note(tmp_path, "gpu-7")
    with webhook((404, 200)) as (url, heard):
        for _ in range(3):
            tell(tmp_path, url)
        note(tmp_path, "gpu-7")
        tell(tmp_path, url)
    assert [each["node"] for each in heard] == ["gpu-7"] * 3
    assert heard[1]["text"] == "Argosy: node gpu-7 is bad (node): slow; pretrain-0123456789ab"
    warning = capsys.readouterr().err
    assert warning.startswith("warning: the webhook was not told (HTTP 404): node gpu-7 is bad")
    assert url not in warning


class Api:
    """The nodes of a cluster, as its API shows and changes them."""

    def __init__(self, **nodes: dict[str, Any]) -> None:
        self.nodes = nodes

    def ask(self, method: str, path: str, body: Any = None, **_: str) -> dict[str, Any]:
        if method == "PATCH":
            self.nodes[path.rpartition("/")[2]] = {"unschedulable": body["spec"]["unschedulable"],
                                                   "marked": body["metadata"]["annotations"][MARK] is not None}
        return {"items": [{"metadata": {"name": name, "annotations": {MARK: "true"} if node.get("marked") else {}},
                           "spec": {"unschedulable": node.get("unschedulable", False)}}
                          for name, node in self.nodes.items()]}  # fmt: skip


def test_bad_nodes_are_cordoned_and_uncordoned_later_and_those_of_others_stay() -> None:
    held, free = {"unschedulable": True, "marked": True}, {"unschedulable": False, "marked": False}
    person = {"unschedulable": True, "marked": False}
    lifted = {"unschedulable": False, "marked": True}
    api = Api(good=free, bad=free, person=person, lifted=lifted)
    mark_nodes(api, {"bad", "person", "lifted", "gone"})  # type: ignore[arg-type]
    assert api.nodes == {"good": free, "bad": held, "person": person, "lifted": lifted}
    mark_nodes(api, set())  # type: ignore[arg-type]
    assert api.nodes == {"good": free, "bad": free, "person": person, "lifted": free}
