"""Two promotions at a time: an alias moves only from what the gate was asked about, in a registry of MLflow's own."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from argosy.tracking.models import CHECKPOINT
from argosy.tracking.registry import HISTORY, Moved, Registry, Version
from argosy.tracking.server import Server, default_uri
from workflows.nightly import promotion
from workflows.nightly.promotion import Grounds, alone, promote
from workflows.nightly.reference import Chosen


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    """With the checkpoints a/final, b/final and c/final of the line `tiny`."""
    root = tmp_path_factory.mktemp("mlflow")
    found = Server(default_uri(root), root)
    with found.errors():
        experiment = found.client.create_experiment("tiny", str(root / "artifacts"))
        for name in "abc":
            found.client.create_logged_model(experiment, name=name, tags={CHECKPOINT: f"{name}/final"})
    return found


def chosen(name: str) -> Chosen:
    return cast(Chosen, SimpleNamespace(key=f"{name}/final", label=name, trained=SimpleNamespace(line="tiny")))


def named(registry: Registry, alias: str) -> str:
    found = registry.at("tiny", alias)
    return found.checkpoint if found else ""


def history(server: Server, alias: str) -> list[str]:
    return list(json.loads(server.client.get_registered_model("tiny").tags.get(HISTORY.format(alias), "[]")))


def test_what_was_moved_meanwhile_stays(server: Server, tmp_path: Path) -> None:
    registry = Registry(server)
    promote(registry, chosen("a"), tmp_path, Grounds(against=""), alias="one")
    promote(registry, chosen("b"), tmp_path, Grounds(against="a/final"), alias="one")  # the other process
    with pytest.raises(Moved, match="was moved meanwhile, from a/final to b/final, which was not compared"):
        promote(registry, chosen("c"), tmp_path, Grounds(against="a/final"), alias="one")
    with pytest.raises(Moved, match="from nothing to b/final"):
        promote(registry, chosen("c"), tmp_path, Grounds(against=""), alias="one")
    assert named(registry, "one") == "b/final"
    assert len(list((tmp_path / ".promotions").glob("*.json"))) == 2
    promote(registry, chosen("c"), tmp_path, Grounds(), alias="one")  # without a gate, or with --reference
    assert named(registry, "one") == "c/final"


def test_from_another_store_too(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No lease holds there: the registry itself looks again before it moves."""
    registry, keep = Registry(server), promotion.keep
    promote(registry, chosen("a"), tmp_path, Grounds(), alias="two")

    def meanwhile(*given: Any) -> Path:
        if given[2] == "begun":
            Registry(server).move("tiny", "two", "tiny", "b/final", {})
        return keep(*given)

    monkeypatch.setattr(promotion, "keep", meanwhile)
    with pytest.raises(Moved, match="from a/final to b/final"):
        promote(registry, chosen("c"), tmp_path, Grounds(against="a/final"), alias="two")
    assert named(registry, "two") == "b/final"


def test_one_promotion_of_a_store_waits_for_the_other(server: Server, tmp_path: Path) -> None:
    registry, moved = Registry(server), threading.Event()
    found: list[tuple[Version | None, Version]] = []

    def second() -> None:
        found.append(promote(registry, chosen("b"), tmp_path, Grounds(), alias="three"))
        moved.set()

    thread = threading.Thread(target=second)
    with alone(tmp_path):
        thread.start()
        assert not moved.wait(0.5)
        registry.move("tiny", "three", "tiny", "a/final", {})
    thread.join(60)
    [(before, now)] = found
    assert before is not None
    assert (before.checkpoint, now.checkpoint) == ("a/final", "b/final")


def test_a_move_that_was_cut_off_leaves_one_entry_of_history(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(server)
    for name in "ab":
        promote(registry, chosen(name), tmp_path, Grounds(), alias="four")
    with monkeypatch.context() as patch:
        patch.setattr(type(server.client), "set_registered_model_alias", _killed)
        with pytest.raises(KeyboardInterrupt):
            promote(registry, chosen("c"), tmp_path, Grounds(), alias="four")
    promote(registry, chosen("c"), tmp_path, Grounds(), alias="four")
    assert len(history(server, "four")) == 3
    back = [promotion.undo(registry, "tiny", tmp_path, alias="four") for _ in range(3)]
    assert [each.checkpoint if each else "" for each in back] == ["b/final", "a/final", ""]


def _killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
