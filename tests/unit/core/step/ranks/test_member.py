"""The group of ranks of a pod: how it ends where the kernel killed one of its ranks for want of memory."""

import json
from pathlib import Path

import pytest

from argosy.core.step.ranks import member
from argosy.core.step.ranks.diagnosis import GroupEnd


def test_a_pod_whose_rank_lacked_memory_says_so_and_ends_as_if_it_had_been_killed_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
