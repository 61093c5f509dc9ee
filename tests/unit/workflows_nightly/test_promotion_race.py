"""Two promotions at a time: an alias moves only from what the gate compared with, in a registry of MLflow's own."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from argosy.core.tracking.mlflow.registry import Moved, Registry, Version
from argosy.core.tracking.mlflow.server import CHECKPOINT, Server, default_uri
from argosy.evidence.gate.check import Verdict, check
from argosy.evidence.gate.config import Gate
from argosy.evidence.gate.subject import nobody
from tests.command_line import Argosy
from workflows.nightly import candidates, promotion
from workflows.nightly.candidates import Candidate
from workflows.nightly.promotion import Grounds, alone, promote


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


def chosen(name: str) -> Candidate:
    return cast(Candidate, SimpleNamespace(key=f"{name}/final", label=name, step=SimpleNamespace(line="tiny")))


def named(registry: Registry, alias: str) -> str:
    found = registry.at("tiny", alias)
    return found.checkpoint if found else ""


def test_what_was_moved_meanwhile_stays(server: Server, tmp_path: Path) -> None:
    registry = Registry(server)
    promote(registry, chosen("a"), tmp_path, Grounds(against=""), alias="one")
    promote(registry, chosen("b"), tmp_path, Grounds(against="a/final"), alias="one")  # the other process
    with pytest.raises(Moved, match="was moved meanwhile, from a/final to b/final, which was not compared"):
        promote(registry, chosen("c"), tmp_path, Grounds(against="a/final"), alias="one")
    assert named(registry, "one") == "b/final"
    assert len(list((tmp_path / ".promotions").glob("*.json"))) == 2


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
    assert (before.checkpoint, now.checkpoint) == ("a/final", "b/final")


def test_what_an_alias_names_already_is_held_against_what_it_named_before(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argosy: Argosy
) -> None:
    references: list[Any] = []

    def hold(gate: Gate, new: Candidate, reference: Any, store: Path) -> Verdict:
        references.append(reference)
        return check(gate, nobody("a"), None)

    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    monkeypatch.setattr("workflows.nightly.promotion.hold", hold)
    for name in "ba":
        monkeypatch.setattr(candidates, "last_by_name", lambda *_, name=name: chosen(name))
        command = ["promote", "sft", "--store", str(tmp_path), "--alias", "five"]
        said = argosy(*command)
    assert "tiny@five is a/final (version" in said.out
    for rule, options, code, words in (("better_on", [], 1, "tiny@five names it already: nothing was moved"),
                                       ("better_on", ["--force", "why"], 0, "already: nothing was moved; forced"),
                                       ("not_worse", [], 0, "already: nothing was moved; the gate holds")):  # fmt: skip
        (tmp_path / "gate.yaml").write_text(f"rules: [{rule}]")
        said = argosy(*command, "--gate", str(tmp_path / "gate.yaml"), *options, code=code)
        assert words in said.out + said.err
    assert references == ["b/final"] * 3
    assert len(list((tmp_path / ".promotions").glob("*.json"))) == 2


@pytest.mark.parametrize("command", [["promote", "sft"], ["promote", "--undo"], ["gate", "sft"]])
@pytest.mark.parametrize(("option", "value"), [("--alias", "a.b"), ("--alias", "latest"), ("--alias", "v2"),
                                               ("--model", ""), ("--model", "a:b"), ("--model", "..")])  # fmt: skip
def test_names_that_mlflow_cannot_take_are_refused(option: str, value: str, command: list[str], tmp_path: Path,
                                                   argosy: Argosy) -> None:
    said = argosy(*command, "--store", str(tmp_path), option, value, code=2).err
    assert f"{option} is {value!r}, allowed: letters, digits, '_'" in said
    assert not list(tmp_path.iterdir())
