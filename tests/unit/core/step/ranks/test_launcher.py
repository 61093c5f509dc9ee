"""Groups on several nodes: what their launcher says of a lost one, and how a pod ends whose rank lacked memory."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from argosy.core.errors import StepError
from argosy.core.step.ranks import member
from argosy.core.step.ranks.diagnosis import GroupEnd
from argosy.core.step.ranks.launcher import LOST, Launcher
from argosy.core.store.files import write_json


def test_a_node_that_is_silent_is_not_said_to_have_ended_as_the_launcher_killed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NODES_ELSEWHERE": "0", "ADDRESS": "127.0.0.1", "NODE_TIMEOUT": "0.5"}.items():
        monkeypatch.setenv(f"ARGOSY_{name}", value)
    (tmp_path / "state").mkdir()
    launcher = Launcher("pretrain", tmp_path, 2, 1)
    for node in range(2):
        group = {"incarnation": str(node), "address": "127.0.0.1", "port": 1, "host": "a"}
        launcher._store.set(f"group/{node}", json.dumps(group))
        launcher._store.add(f"beat/{node}", 1)
    assert launcher.gather(2) == 2
    kill = lambda: launcher._ended.update({"1": -9})  # noqa: E731
    launcher._processes[1] = SimpleNamespace(kill=kill)  # type: ignore[assignment]
    launcher._store.set("end/1/0", json.dumps({"exits": {"0": [1, 1.0]}}))
    end, grows = launcher.run({}, 2, lambda there: False)
    assert "gave no sign of life for 0.5 s (ARGOSY_NODE_TIMEOUT)" in end.frozen[1]
    assert not grows


def test_a_launcher_whose_groups_come_no_more_does_not_wait_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                                      ) -> None:
    for name, value in {"NODES_ELSEWHERE": "0", "ADDRESS": "127.0.0.1"}.items():
        monkeypatch.setenv(f"ARGOSY_{name}", value)
    launcher = Launcher("pretrain", tmp_path, 2, 1)
    write_json(tmp_path / "state" / LOST, {"why": "4 JobSets failed"})
    with pytest.raises(StepError, match="0 of 2 nodes are there, 2 are needed; no more come: 4 JobSets failed"):
        launcher.gather(2)


def test_a_pod_whose_rank_lacked_memory_says_so_and_ends_as_if_it_had_been_killed_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("ARGOSY_NODE", "0")
    (joined := tmp_path / "joined").touch()
    monkeypatch.setenv(member.JOINED, str(joined))
    monkeypatch.setattr(member, "run_group", lambda *given: GroupEnd(exits={0: (-9, 1.0)}, starved={0: True}))
    group = member._Member("pretrain", {"host": "127.0.0.1", "port": store.port})
    members = {0: [0, json.loads(store.get("group/0"))["incarnation"]]}
    store.set("round/1", json.dumps({"members": members, "local": 1, "endpoint": "", "task": {}}))
    store.set("round", "1")
    with pytest.raises(SystemExit) as ended:
        group.serve()
    group._gone.set()
    assert ended.value.code == 137
    assert GroupEnd.read(json.loads(store.get("end/1/0"))).starved == {0: True}
    assert joined.exists()
