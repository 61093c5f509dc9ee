"""A store in an object store: what pods push is seen whole or not at all, and goes on in another pod."""

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from argosy.core.errors import InputError
from argosy.core.store.lease import LEASE
from argosy.core.store.step_files import OUTPUTS
from argosy.model.weights.checkpoint import Checkpoint, base_of, find_checkpoint
from tests.trees import read_files, write_files
from workflows.argo.objectstore.files import PIECE, Remote, RemoteError
from workflows.argo.objectstore.mirror import Mirror
from workflows.argo.objectstore.node import FILES, Leases, RemoteNode
from workflows.argo.objectstore.pods import last_is_over
from workflows.argo.objectstore.records import pull_checkpoint, pull_records, pull_upstream
from workflows.graph import Resources
from workflows.plan import PlannedNode

DONE = json.dumps({"outputs": {}, "made_from": {}})
NODE = "sft-0123456789ab"


@pytest.fixture
def remote(bucket: str) -> Remote:
    """A store of its own on the server."""
    return Remote(bucket, {})


def pushed(remote: Remote, root: Path, files: Mapping[str, str | bytes], name: str = NODE) -> RemoteNode:
    """What a pod makes and sends of a directory."""
    write_files(root / name, files)
    node = RemoteNode(remote, root, name)
    node.push()
    return node


def pulled(remote: Remote, root: Path, name: str = NODE) -> dict[str, bytes]:
    """What a new pod gets of a directory."""
    RemoteNode(remote, root, name).pull()
    return read_files(root / name)


def test_a_store_that_is_being_made_has_no_file_without_a_name(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3's listing of an empty prefix names the prefix itself where another pod writes below it meanwhile."""
    remote.write(f"{NODE}/{OUTPUTS}", b"{}")
    find, base = remote.fs.find, remote._base
    itself = {base: {"size": 0}, f"{base}/": {"size": 0}}
    monkeypatch.setattr(remote.fs, "find", lambda *given, **options: {**itself, **find(*given, **options)})
    assert list(remote.list()) == [f"{NODE}/{OUTPUTS}"]


class Killed(BaseException):
    """The pod is gone."""


def push_until(node: RemoteNode, remote: Remote, name: str, after: str = "") -> None:
    """The pod is killed when it is about to send `name`, once `after` is there."""
    upload, there = remote.upload, threading.Event()

    def until(local: Path, target: str) -> None:
        if target.endswith(name):
            assert not after or there.wait(60)
            raise Killed
        upload(local, target)
        if target.endswith(after):
            there.set()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(remote, "upload", until)
        with pytest.raises(Killed):
            node.push()


def test_what_is_pushed_arrives_in_another_pod_byte_for_byte(remote: Remote, tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"log.txt": "one\n", "state/step-00000004/loop.pt": b"\0" * 1000,
                                     "state/complete": b"", "weights.bin": os.urandom(2 * PIECE + 7)}
    write_files(tmp_path / "a" / NODE, files)
    write_files(tmp_path / "a" / NODE, {".out.123.tmp": "half", "state/.step-00000008.tmp/loop.pt": "half", LEASE: "x"})
    node = RemoteNode(remote, tmp_path / "a", NODE)
    node.pull()
    node.push()
    with patch.object(remote, "upload", side_effect=AssertionError):
        node.push()  # nothing has changed
    assert pulled(remote, tmp_path / "b") == read_files(tmp_path / "b" / NODE)
    assert read_files(tmp_path / "b" / NODE) == {n: v if isinstance(v, bytes) else v.encode() for n, v in files.items()}


def test_a_checkpoint_that_is_half_there_is_not_seen_and_the_one_before_it_is(remote: Remote, tmp_path: Path) -> None:
    root = tmp_path / "a" / NODE
    first = {"state/step-00000004/loop.pt": "4", "state/step-00000004/model.pt": "4", "run.json": "{}"}
    node = pushed(remote, tmp_path / "a", first)
    write_files(root, {"state/step-00000008/loop.pt": "8", "state/step-00000008/model.pt": "8",
                       "run.json": '{"attempts": 1}'})
    for name in ("loop.pt", "model.pt"):
        (root / "state/step-00000004" / name).unlink()
    push_until(node, remote, "step-00000008/model.pt", after="step-00000008/loop.pt")
    assert f"{NODE}/state/step-00000008/loop.pt" in remote.list()
    before = pulled(remote, tmp_path / "b")
    assert {name for name in before if name.startswith("state")} == {"state/step-00000004/loop.pt",
                                                                     "state/step-00000004/model.pt"}

    after = RemoteNode(remote, tmp_path / "b", NODE)
    after.pull()
    write_files(tmp_path / "b" / NODE, {"state/step-00000006/loop.pt": "6"})
    after.push()
    assert not any("step-00000008" in name for name in remote.list())  # what the killed pod left is gone
    assert "state/step-00000006/loop.pt" in pulled(remote, tmp_path / "c")


def test_a_pod_that_is_killed_before_outputs_json_leaves_nothing_that_says_done(remote: Remote, tmp_path: Path) -> None:
    root = tmp_path / "a" / NODE
    node = pushed(remote, tmp_path / "a", {"state/step-00000004/loop.pt": "4"})
    write_files(root, {"checkpoints/final/model.safetensors": "weights", OUTPUTS: DONE})
    (root / "state/step-00000004/loop.pt").unlink()
    push_until(node, remote, OUTPUTS)
    assert f"{NODE}/{OUTPUTS}" not in remote.list()
    assert "checkpoints/final/model.safetensors" in pulled(remote, tmp_path / "b")
    again = RemoteNode(remote, tmp_path / "b", NODE)
    again.pull()
    write_files(tmp_path / "b" / NODE, {OUTPUTS: DONE})
    again.push()
    assert set(remote.list()) == {f"{NODE}/{n}" for n in (FILES, OUTPUTS, "checkpoints/final/model.safetensors")}
    assert set(pulled(remote, tmp_path / "c")) == {OUTPUTS}  # done: a pod that comes late fetches nothing else


def test_a_step_that_failed_in_part_goes_on_in_another_pod_and_stays_done_meanwhile(remote: Remote,
                                                                                    tmp_path: Path) -> None:
    again = json.dumps({"outputs": {}, "made_from": {}, "again": ["bench/arc"]})
    pushed(remote, tmp_path / "a", {"state/known/1.scores": "1", "results.json": "{}", OUTPUTS: again})
    node = RemoteNode(remote, tmp_path / "b", NODE)
    node.pull()
    assert set(read_files(tmp_path / "b" / NODE)) == {"state/known/1.scores", "results.json", OUTPUTS}
    write_files(tmp_path / "b" / NODE, {"run.json": "{}"})
    node.push()
    assert remote.read(f"{NODE}/{OUTPUTS}") == again.encode()
    (tmp_path / "b" / NODE / "state/known/1.scores").unlink()
    write_files(tmp_path / "b" / NODE, {OUTPUTS: DONE})
    node.push()
    assert set(remote.list()) == {f"{NODE}/{name}" for name in (FILES, OUTPUTS, "results.json", "run.json")}


def test_a_finished_step_that_lacks_a_file_is_an_error_and_an_unfinished_one_starts_anew(remote: Remote,
                                                                                         tmp_path: Path) -> None:
    node = pushed(remote, tmp_path / "a", {"state/a": "1", "state/b": "2", "run.json": "{}"})
    remote.delete([f"{NODE}/state/a"])
    assert set(pulled(remote, tmp_path / "b")) == {"run.json"}
    write_files(tmp_path / "a" / NODE, {OUTPUTS: DONE})
    node.push()
    with pytest.raises(InputError, match=r"state/a.*delete outputs.json"):
        pulled(remote, tmp_path / "c")


def test_what_always_fails_names_itself_and_gives_the_pod_another_attempt(remote: Remote, tmp_path: Path,
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"a": "text"})
    remote.upload(tmp_path / "a", "x/a")
    [entry] = remote.list("x").values()
    broken = {"put_file": ConnectionResetError("reset by peer"), "cat_file": FileNotFoundError("NoSuchKey")}
    for name, error in broken.items():
        monkeypatch.setattr(remote.fs, name, Mock(side_effect=error))
    with pytest.raises(RemoteError, match=rf"upload {remote.uri}/x/b: ConnectionResetError: reset by peer") as caught:
        remote.upload(tmp_path / "a", "x/b")
    assert caught.value.exit_code == 75
    with pytest.raises(RemoteError, match="it was listed a moment ago"):
        remote.download("x/a", entry, tmp_path / "c")


def test_wrong_rights_and_a_missing_bucket_are_no_reason_to_try_again(remote: Remote, tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"s3://no-such-bucket/x/a.*no such bucket"):
        Remote("s3://no-such-bucket/x", {}).write("a", b"")

    def denied(*arguments: Any, **named: Any) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(remote.fs, "cat_file", denied)
    with pytest.raises(InputError, match=r"Access Denied.*defaults.secrets"):
        remote.read("a")
    with pytest.raises(InputError, match=r"storage.uri nosuch://a"):
        Remote("nosuch://a", {})


def test_one_pod_at_a_time_holds_a_lease_and_a_dead_one_s_is_taken_over(remote: Remote) -> None:
    order: list[str] = []
    with Leases(remote, [NODE], "wf/a", beat_s=0.2):
        waiting = threading.Thread(target=_hold, args=(remote, "wf-2/b", order))
        waiting.start()
        waiting.join(timeout=2.5)  # longer than what a dead holder is given
        assert waiting.is_alive()
        order.append("wf/a")
    waiting.join(timeout=60)
    assert order == ["wf/a", "wf-2/b"]
    remote.write(f"{NODE}/{LEASE}", json.dumps({"owner": "wf/dead", "token": "t"}).encode())
    _hold(remote, "wf/c", order)
    assert order[-1] == "wf/c"
    assert f"{NODE}/{LEASE}" not in remote.list()


@pytest.mark.parametrize(("code", "over"), [(None, False), ("0", False), ("-1", False), ("75", True), ("137", True)])
def test_a_pod_that_left_no_exit_code_may_still_be_writing(code: str | None, over: bool,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """Argo says 0 of an attempt without one: its pod was deleted, or its node is lost and may come back."""
    monkeypatch.delenv("ARGOSY_LAST_EXIT", raising=False)
    if code is not None:
        monkeypatch.setenv("ARGOSY_LAST_EXIT", code)
    assert last_is_over() is over


def _hold(remote: Remote, owner: str, order: list[str]) -> None:
    with Leases(remote, [NODE], owner, beat_s=0.2):
        order.append(owner)


def test_a_lease_that_was_taken_over_stops_the_pod_and_its_pushes(remote: Remote, tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    killed = threading.Event()
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.set())
    with Leases(remote, [NODE], "wf/a", beat_s=0.1) as leases:
        remote.write(f"{NODE}/{LEASE}", json.dumps({"owner": "wf-2/b", "token": "t"}).encode())
        assert killed.wait(60)
        write_files(tmp_path / NODE, {"a": "1"})
        with pytest.raises(RemoteError, match="taken over by wf-2/b"):
            RemoteNode(remote, tmp_path, NODE, leases.check).push()
    assert set(remote.list()) == {f"{NODE}/{LEASE}"}  # not ours to remove


def test_a_pod_that_was_suspended_looks_at_its_lease_before_it_pushes(remote: Remote, tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own next beat comes later, and the pod that took over may have ended by then."""
    monkeypatch.setattr(Leases, "_beat", lambda self: None)
    with Leases(remote, [NODE], "wf/a", beat_s=0.2) as leases:
        _hold(remote, "wf-2/b", [])
        write_files(tmp_path / NODE, {"a": "1"})
        with pytest.raises(RemoteError, match="taken over by a pod that has ended"):
            RemoteNode(remote, tmp_path, NODE, leases.check).push()
    assert not remote.list()


def planned_node(step: str, root: Path, config: dict[str, Any]) -> PlannedNode:
    return PlannedNode(id=step, name=step, part="", step=step, digest="0" * 12, dir=str(root / f"{step}-{'0' * 12}"),
                       config=json.dumps(config), provenance="{}", upstream=(), resources=Resources(), batch=1,
                       state="pending", reason="")


def trained(remote: Remote, folder: Path, exports: Sequence[str], name: str = NODE, **files: object) -> None:
    """A finished training step in the store, with `exports` of which the last one is final, and JSON files."""
    entries = [{"name": each, "path": f"checkpoints/{each}"} for each in exports]
    outputs = {"exports": entries, "final": f"checkpoints/{exports[-1]}"}
    of_all = {f"checkpoints/{each}/{file}": json.dumps(text) for file, text in files.items() for each in exports}
    pushed(remote, folder, {
        **{f"checkpoints/{each}/model.safetensors": b"w" * (2**20 + 1) for each in exports},
        **{f"checkpoints/{each}/config.json": "{}" for each in exports}, **of_all,
        "tracking/spool.jsonl": "{}\n", OUTPUTS: json.dumps({"outputs": outputs, "made_from": {}}),
    }, name)  # fmt: skip


def weights(root: Path) -> set[str]:
    return {path.parent.relative_to(root).as_posix() for path in root.rglob("*.safetensors")}


def test_of_a_training_step_only_the_checkpoint_that_is_loaded_is_fetched(remote: Remote, tmp_path: Path) -> None:
    trained(remote, tmp_path / "a", ("step-4", "step-8"))
    for step, field, export, fetched in (
        ("evaluate", "checkpoint", "step-4", {"step-4"}), ("evaluate", "checkpoint", "final", {"step-8"}),
        ("preference", "checkpoint", "", {"step-8"}), ("tokenize", "data", "", set()),
        ("serve", "", "step-4", {"step-4"}),
    ):  # fmt: skip
        root = tmp_path / f"{step}{export}"
        config = {field: str(root / NODE), **({"export": export} if export else {})}
        if step == "serve":
            pull_checkpoint(Mirror(remote, root), f"{NODE}/checkpoints/{export}")
        else:
            pull_upstream(Mirror(remote, root), [planned_node(step, root, config)])
        assert (root / NODE / OUTPUTS).is_file()
        assert not (root / NODE / "tracking").exists()
        assert weights(root) == {f"{NODE}/checkpoints/{each}" for each in fetched}
    for export, refused in (("step-9", "step-9 is no checkpoint"), ("step-4", "lacks checkpoints/step-4/model")):
        with pytest.raises(InputError, match=refused):
            pull_checkpoint(Mirror(remote, tmp_path / "none"), f"{NODE}/checkpoints/{export}")
        assert not weights(tmp_path / "none")
        remote.delete([f"{NODE}/checkpoints/step-4/model.safetensors"])


def test_an_evaluation_s_pod_knows_where_its_checkpoint_leaves_the_line_without_the_weights(remote: Remote,
                                                                                            tmp_path: Path) -> None:
    root, base = tmp_path / "pod", "anneal-0123456789ab"
    for name, config in ((base, {}), (NODE, {"checkpoint": str(root / base)})):
        argosy = {"stage": name[:-13], "step": 1, "tokens": 7, "chat": name == NODE}
        write_files(tmp_path / "made" / name, {"run.json": json.dumps({"config": config})})
        trained(remote, tmp_path / "made", ("p100",), name, **{"argosy.json": argosy})
    pull_upstream(Mirror(remote, root), [planned_node("evaluate", root, {"checkpoint": str(root / NODE)})])
    found = base_of(find_checkpoint(root / NODE))
    assert found == Checkpoint(root / base / "checkpoints/p100", "p100", stage="anneal", step=1, tokens=7, ours=True)
    assert weights(root) == {f"{NODE}/checkpoints/p100"}


def test_what_an_adapter_is_loaded_beside_comes_with_it(remote: Remote, tmp_path: Path) -> None:
    root, bases = tmp_path / "pod", ["sft-0123456789ab", "anneal-0123456789ab"]
    for name, base in zip((NODE, *bases), (*bases, ""), strict=True):
        beside = {"base.json": {"path": f"../../../{base}/checkpoints/final"}} if base else {}
        trained(remote, tmp_path / "made", ("p050", "final"), name, **beside)
    pull_upstream(Mirror(remote, root), [planned_node("evaluate", root, {"checkpoint": str(root / NODE)})])
    pull_checkpoint(Mirror(remote, tmp_path / "serve"), f"{NODE}/checkpoints/final")
    for pod in (root, tmp_path / "serve"):
        assert weights(pod) == {f"{name}/checkpoints/final" for name in (NODE, *bases)}


def test_planning_fetches_records_alone_with_the_time_that_they_were_made(remote: Remote, tmp_path: Path) -> None:
    pushed(remote, tmp_path / "a", {
        OUTPUTS: DONE, "node.json": "{}", "weights.bin": "w", "checkpoints/final/config.json": "{}",
        "checkpoints/final/model.safetensors": "w", "tracking/spool.jsonl": '{"kind": "header"}\n'})  # fmt: skip
    remote.write(".pipelines/0123/config.json", b"{}")
    remote.write(".argo/other/plan.json", b"{}")
    pull_records(Mirror(remote, tmp_path / "b"))
    names = {OUTPUTS, "node.json", "checkpoints/final/config.json", "tracking/spool.jsonl"}
    assert set(read_files(tmp_path / "b")) == {f"{NODE}/{name}" for name in names} | {".pipelines/0123/config.json"}
    assert (tmp_path / "b" / NODE / OUTPUTS).stat().st_mtime == remote.list()[f"{NODE}/{OUTPUTS}"].time


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_other_file_systems_of_fsspec_are_stores_too(scheme: str, tmp_path: Path) -> None:
    remote = Remote(f"{scheme}://{tmp_path}/bucket", {})
    files: dict[str, str | bytes] = {"a": "1", "state/b": "2", OUTPUTS: DONE}
    write_files(tmp_path / "a" / NODE, files)
    with Leases(remote, [NODE], "wf/a", beat_s=5.0) as leases:
        node = RemoteNode(remote, tmp_path / "a", NODE, leases.check)
        node.pull()
        node.push()
    assert set(remote.list()) == {f"{NODE}/{name}" for name in (*files, FILES)}
    after = planned_node("noop", tmp_path / "b", {"after": [str(tmp_path / "b" / NODE)]})
    pull_upstream(Mirror(remote, tmp_path / "b"), [after])
    assert set(read_files(tmp_path / "b" / NODE)) == {"a", OUTPUTS}
