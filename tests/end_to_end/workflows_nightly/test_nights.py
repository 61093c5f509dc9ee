"""Nights on a real tiny store with a real MLflow: nothing twice, nothing lost, and red when something got worse."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.step_files import read_done
from argosy.core.tracking.mlflow.registry import Registry
from argosy.core.tracking.mlflow.server import CHECKPOINT, Server, default_uri
from argosy.core.tracking.spool import PIPELINES
from tests.argo_fixtures import batches, pod, run_batches, write_profile
from tests.command_line import Argosy
from tests.nightly_fixtures import answer_all_right, planned, train
from workflows.argo.handoff import Handoff
from workflows.argo.pod.outputs import with_devices
from workflows.argo.profile.profile import Profile
from workflows.cli import main
from workflows.nightly.candidates import registry_of
from workflows.nightly.night import Request, plan_nights, run_night
from workflows.stored.registry import named_by

OTHER = "pretrain.heldout_tokens=900"  # another digest, the same weights
ENVIRONMENT = ("MLFLOW_TRACKING_URI", "ARGOSY_ON", "ARGOSY_PIPELINE", "ARGOSY_LINE")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, warm: None) -> tuple[Path, Path]:
    """A store with two pretrained checkpoints, that of OTHER the newer, after a night; a copy of what it evaluated."""
    store, kept = tmp_path_factory.mktemp("nightly") / "store", tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        for name in ENVIRONMENT:
            patch.delenv(name, raising=False)
        train(store)
        train(store, OTHER)
        assert night(store, "--dry-run") == 0
        assert not list(store.glob("evaluate-*"))
        assert night(store) == 0
    for path in store.glob("evaluate-*"):
        shutil.copytree(path, kept / path.name)
    return store, kept


@pytest.fixture
def store(evaluated: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same one, evaluated and not judged."""
    store, kept = evaluated
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for path in (*store.glob("regressions-*"), *store.glob("evaluate-*"), store / ".nightly"):
        shutil.rmtree(path, ignore_errors=True)
    for path in kept.iterdir():
        shutil.copytree(path, store / path.name)
    for path in store.glob(f"{PIPELINES}/*/config.json"):  # not another test's gate
        config = json.loads(path.read_text())
        if config.pop("gate", None):
            path.write_text(json.dumps(config))
    return store


def nightly(store: Path) -> list[str]:
    return ["nightly", "--store", str(store), "--plain"]


def night(store: Path, *options: str) -> int:
    return main([*nightly(store), *options])


def checkpoint(store: Path, *overrides: str) -> str:
    """Key of the pretrained checkpoint of a config."""
    [node] = [node for node in planned(store, *overrides).nodes if node.name == "pretrain"]
    return f"{node.digest}/p100"


def cells(store: Path, *overrides: str) -> list[Path]:
    """Directories in which the lifecycle evaluates pretraining's checkpoint."""
    nodes = planned(store, *overrides).nodes
    return [Path(node.dir) for node in nodes if node.part.startswith("pretrain-")]


def judgements(store: Path) -> list[dict[str, object]]:
    found = [read_done(path) for path in sorted(store.glob("regressions-*"))]
    return [each for done in found if done for each in done["outputs"]["judged"]]


def logged(store: Path, key: str) -> tuple[Any, Any]:
    """The client of the store's MLflow, and the model of a checkpoint there."""
    server = Server(default_uri(store), store)
    [model] = server.client.search_logged_models(
        [server.client.get_experiment_by_name("tiny").experiment_id], f"tags.`{CHECKPOINT}` = '{key}'")
    return server.client, model


def test_cells_are_the_lifecycle_s_own_and_none_is_made_twice(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = [*cells(store), *cells(store, OTHER)]
    assert len(wanted) == 4
    assert sorted(store.glob("evaluate-*")) == sorted(wanted)
    profile = Profile.model_validate({"storage": {"claim": "c"}, "defaults": {"devices": {"gpus": 4}}})
    [placed] = plan_nights(store, Request(), place=lambda config: with_devices(config, profile))
    assert {cell.resources.gpus for cell in placed.cells} == {4}  # of the pods, and not of the line
    states = {node.state for node in planned(store, OTHER).nodes if Path(node.dir) in wanted}
    assert states == {"done"}  # what `argosy run` would do is done
    attempts = [(path / "run.json").read_bytes() for path in wanted]
    assert night(store) == 0  # after one that ended before it judged
    assert [(path / "run.json").read_bytes() for path in wanted] == attempts
    assert {each["checkpoint"]: each["verdict"] for each in judgements(store)} == {
        checkpoint(store): "not compared", checkpoint(store, OTHER): "no difference"}  # fmt: skip
    before = sorted(path.name for path in store.glob("[a-z]*-*"))
    said = capsys.readouterr().out
    assert "nightly: nothing new is worse than its reference" in said
    assert any(Path(line.removeprefix("report: ")).is_file() for line in said.splitlines())
    assert night(store) == 0
    assert capsys.readouterr().out.strip() == "nothing is new"
    assert sorted(path.name for path in store.glob("[a-z]*-*")) == before


def test_worse_than_the_alias_ends_red_once_and_is_marked_in_mlflow(store: Path, argosy: Argosy) -> None:
    key, other = checkpoint(store), checkpoint(store, OTHER)
    assert main(["promote", str(store / f"pretrain-{key.partition('/')[0]}"), "--store", str(store)]) == 0
    assert night(store, "--checkpoint", f"pretrain-{key.partition('/')[0]}") == 0
    answer_all_right([str(path) for path in cells(store)])  # the reference: right about everything
    [found] = plan_nights(store, Request(), registry_of(store))
    pairs = {pair.checkpoint: pair.reference for pair in found.pairs}
    assert pairs[other] == key
    said = argosy(*nightly(store), code=1).out.splitlines()[-1]
    assert said.startswith("nightly: pretrain/p100")
    assert "is worse than" in said
    assert "report.html" in said
    assert night(store) == 0  # told once
    client, model = logged(store, other)
    assert (model.tags["argosy.nightly.verdict"], model.tags["argosy.nightly.reference"]) == ("worse", key)
    runs = client.search_runs([model.experiment_id], "tags.`argosy.step` = 'regressions'")
    assert max(run.data.metrics["nightly/worse"] for run in runs) == 1
    assert main(["promote", "--undo", "--store", str(store)]) == 0


def test_an_alias_moves_only_where_the_gate_holds_and_the_evidence_is_kept(store: Path, tmp_path: Path,
                                                                           argosy: Argosy) -> None:
    key, other = checkpoint(store), checkpoint(store, OTHER)
    rules, registry = tmp_path / "gate.yaml", Registry(Server(default_uri(store), store))
    common = ["--store", str(store), "--alias", "gated"]
    promote, undo = (["promote", *more, *common, "--by", "Ada"] for more in (["--gate", str(rules)], ["--undo"]))

    def named() -> str:
        found = registry.at("tiny", "gated")
        return found.checkpoint if found else ""

    held = ("rules: [{not_worse: {on: [bench/facts/headline/acc]}}, {no_channel_worse: {channels: [code]}}, "
            "{at_least: {bench/facts/plain/acc: %s}}]")  # of the demo's other task, 8 items tell nothing
    rules.write_text(held % 1.01)
    said = argosy("gate", key, *common, "--rules", str(rules), code=1).out
    assert "FAILS        at_least {bench/facts/plain/acc: 1.01}" in said
    said = argosy(*promote, key, code=1).err
    assert "the gate does not hold (fails: at_least), so tiny@gated stays nothing" in said
    assert named() == ""
    argosy(*promote, key, "--force", "a dry run of the release")
    tags = registry.at("tiny", "gated").tags
    assert [tags[f"argosy.promoted.{name}"] for name in ("gate", "forced", "by")] == [
        "fails", "a dry run of the release", "Ada"]

    rules.write_text(held % 0)
    argosy(*promote, other)  # the same weights: not worse than what the alias names
    assert (named(), registry.at("tiny", "gated").tags["argosy.promoted.gate"]) == (other, "holds")
    argosy(*promote, other)  # again: nothing to ask, nothing to move
    for before in (key, ""):
        argosy(*undo)
        assert named() == before
    assert "never moved" in argosy(*undo, code=2).err

    evidence = [json.loads(path.read_text()) for path in (store / ".promotions").glob("*-gated-*.json")]
    assert sorted((each["kind"], each["outcome"], each["checkpoint"], each["before"]) for each in evidence) == sorted([
        ("promote", "refused", key, ""), ("promote", "moved", key, ""), ("promote", "moved", other, key),
        ("undo", "moved", key, other), ("undo", "moved", "", key)])
    [held] = [each for each in evidence if each["kind"] == "promote" and each["checkpoint"] == other]
    assert (held["gate"]["status"], held["gate"]["reference"], len(held["gate"]["rules"])) == ("holds", key, 3)
    client, model = logged(store, other)
    assert any("promotions" in each.path for each in client.list_logged_model_artifacts(model.model_id))


@pytest.mark.usefixtures("no_mlflow")
def test_a_night_judges_by_the_gate_of_the_config(store: Path, argosy: Argosy) -> None:
    key, other = checkpoint(store), checkpoint(store, OTHER)
    for found in plan_nights(store, Request()):
        gate = {"rules": [{"at_least": {"bench/facts/plain/acc": 1.01}}, "not_worse"]}
        gated = found.model_copy(update={"config": {**found.config, "gate": gate}})
        assert run_night(gated, plain=True) == []
    judged = {each["checkpoint"]: each for each in judgements(store)}
    assert (set(judged), judged[other]["verdict"]) == ({key, other}, "worse")
    assert judged[other]["regressions"][0].startswith("at_least: bench/facts/plain/acc")
    assert "fails the gate: at_least" in argosy(*nightly(store), code=1).out


@pytest.mark.usefixtures("no_mlflow")
def test_a_checkpoint_that_fails_holds_up_no_other(store: Path, argosy: Argosy) -> None:
    broken, lost = checkpoint(store, OTHER), cells(store, OTHER)[0]
    weights = store / f"pretrain-{broken.partition('/')[0]}" / "checkpoints/p100/model.safetensors"
    bytes_ = weights.read_bytes()
    weights.write_bytes(b"broken")
    shutil.rmtree(lost)
    try:
        assert "nightly: evaluate/pretrain-final-" in argosy(*nightly(store), code=1).out
        assert [each["checkpoint"] for each in judgements(store)] == [checkpoint(store)]
    finally:
        weights.write_bytes(bytes_)
    assert night(store) == 0
    assert {each["checkpoint"] for each in judgements(store)} == {checkpoint(store), broken}


def test_what_is_not_known_is_named_and_judges_nothing(store: Path, monkeypatch: pytest.MonkeyPatch,
                                                      argosy: Argosy) -> None:
    for options, words in ((["--checkpoint", "pretrian"], "nearest: pretrain"), (["--suites", "benchmrk"], "benchmrk"),
                           (["--reference", "nobody"], "no alias of the registered model")):
        assert words in argosy(*nightly(store), *options, code=2).err
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert "MLflow does not answer" in argosy(*nightly(store), code=1).err
    assert judgements(store) == []


def test_a_checkpoint_of_another_store_that_mlflow_knows_is_found(store: Path, tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", default_uri(store))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert plan_nights(elsewhere, Request()) == []
    found = plan_nights(elsewhere, Request(), registry_of(elsewhere))
    assert {pair.checkpoint for night in found for pair in night.pairs} == {checkpoint(store), checkpoint(store, OTHER)}
    config = json.loads(found[0].plan.to_run[0].config)
    assert all(config[name].startswith(str(store)) for name in ("checkpoint", "data"))


@pytest.mark.usefixtures("no_mlflow")
def test_in_pods_it_is_the_same_night(store: Path, tmp_path: Path) -> None:
    profiles = write_profile(store.parent)
    lost = cells(store, OTHER)[0]
    before = (lost / "outputs.json").read_bytes()
    shutil.rmtree(lost)

    def plan_pod(workflow: str) -> tuple[dict[str, list[str]], str]:
        out = tmp_path / workflow
        given = ["plan", "evaluate", "--workflow", workflow, "--profile", "here", "--outputs", str(out)]
        done = pod(profiles, *given)
        assert done.returncode == 0, done.stderr
        return batches(out), (out / "judge").read_text()

    given, wanted = plan_pod("night-1")
    assert len(given["evaluate"]) == 1
    assert wanted == "yes"
    assert run_batches(profiles, given["evaluate"], workflow="night-1") == [0]
    assert (lost / "outputs.json").read_bytes() == before
    answer_all_right([str(path) for path in cells(store)])  # what OTHER is held against
    judge = ["judge", "--workflow", "night-1", "--profile", "here"]
    for _ in range(2):  # the second time: its pod was killed before it ended
        red = pod(profiles, *judge)
        assert red.returncode == 1
        assert "is worse than" in red.stderr
    assert plan_pod("night-2") == ({"evaluate": []}, "no")
    assert pod(profiles, "finish", "--workflow", "night-1", "--profile", "here", "--status", "Failed").returncode == 0


def test_the_lifecycle_s_final_checkpoint_is_promoted_with_the_evidence(store: Path, tmp_path: Path) -> None:
    profiles = write_profile(store.parent)
    [pretrain] = [node for node in planned(store, OTHER).nodes if node.name == "pretrain"]
    compare = store / "compare-0123456789ab"
    compare.mkdir(exist_ok=True)
    record = {"outputs": {}, "made_from": {"step": "compare", "upstream": {"checkpoints": [pretrain.digest]}}}
    (compare / "outputs.json").write_text(json.dumps(record))
    (compare / "run.json").write_text(json.dumps({"config": {"checkpoints": [pretrain.dir]}}))
    Handoff(store=str(store), line="tiny", pipeline="a" * 12, nodes={}, batches={}, report=str(compare)).write("wf")
    given = ["promote", "--workflow", "wf", "--profile", "here"]
    registry = Registry(Server(default_uri(store), store))
    assert pod(profiles, *given, "--decision=keep", "--by=Ada").returncode == 0
    assert registry.at("tiny", "reference") is None
    done = pod(profiles, *given, "--decision=promote", "--by=Ada")
    assert done.returncode == 0, done.stderr
    now = registry.at("tiny", "reference")
    evidence = [now.tags[f"argosy.promoted.{name}"] for name in ("by", "comparison", "workflow")]
    assert (now.checkpoint, evidence) == (checkpoint(store, OTHER), ["Ada", str(compare), "wf"])
    assert named_by("models:/tiny@reference", store).path == f"{pretrain.dir}/checkpoints/p100"  # as `serve` finds it
    away = pod(profiles, *given, env={"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"})
    assert away.returncode == 75  # the template tries again
    assert main(["promote", "--undo", "--store", str(store)]) == 0
    shutil.rmtree(compare)
