"""argosy compare and MLflow: names of runs, models and aliases; the same numbers there as on our page; what it logs."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from argosy.core.tracking.mlflow.registry import Registry
from argosy.core.tracking.mlflow.server import Server, default_uri
from tests.command_line import Argosy
from tests.report_fixtures import make_lines


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two lines of two checkpoints, sent to the store's own MLflow; the alias `reference` names the last of `base`."""
    from argosy.core.tracking.__main__ import main as ship

    root = tmp_path_factory.mktemp("mlflow")
    made = make_lines(root, ("base", "mixed"), checkpoints=2, items=40)
    assert ship(["ship", "--store", str(root), "--tracking-uri", default_uri(root), "--once"]) == 0
    key = f"{made['base'].name.rpartition('-')[2]}/final"
    Registry(Server(default_uri(root), root)).move("base", "reference", "base", key, {})
    return root


@pytest.fixture(autouse=True)
def _own_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def _client(store: Path) -> Any:
    return Server(default_uri(store), store).client


def _run(store: Path, name: str) -> Any:
    client = _client(store)
    experiments = [e.experiment_id for e in client.search_experiments()]
    return client.search_runs(experiments, f"attributes.run_name = '{name}'")[0]


def _compared(store: Path, argosy: Argosy, *names: str) -> dict[str, Any]:
    return dict(json.loads(argosy("compare", "--store", str(store), "--json", "--all", *names).out))


def _values(entry: dict[str, Any]) -> dict[str, float]:
    return {name: m["value"] for name, m in entry["metrics"].items() if "/headline/" not in name}


def _scores(entry: dict[str, Any]) -> dict[str, Any]:
    """Of contamination; which measure stands out most, MLflow does not know."""
    return {task: {key: value for key, value in found.items() if key not in ("measure", "left_out")}
            for task, found in entry["contamination"].items()}


def test_every_name_of_one_checkpoint_gives_the_same_numbers(store: Path, argosy: Argosy) -> None:
    model = next(m for m in _client(store).search_logged_models(
        [_client(store).get_experiment_by_name("base").experiment_id]) if m.name == "base-pretrain-final")
    names = ["line:base", "models:/base@reference", "models:/base/1", f"models:/{model.model_id}",
             f"runs:/{model.source_run_id}", model.metrics[0].run_id]
    found = _compared(store, argosy, *names)
    assert all(e["source"] == "store" for e in found["entries"])
    assert len({e["key"] for e in found["entries"]}) == 1
    assert len({json.dumps(_values(e), sort_keys=True) for e in found["entries"]}) == 1
    assert {c["difference"] for pair in found["pairs"] for c in pair["contrasts"]} == {0.0}


def test_mlflows_compare_shows_our_numbers(store: Path, argosy: Argosy) -> None:
    """What its pages show: the curve runs' histories at step = tokens, and the models' metrics with their dataset."""
    found = _compared(store, argosy, "line:base", "line:mixed")
    client = _client(store)
    for entry in found["entries"]:
        curves = _run(store, f"{entry['label']} curves")
        models = {m.tags["argosy.checkpoint"]: m for m in client.search_logged_models([curves.info.experiment_id])}
        scores = {f"contamination/{task}/{name}": entry["contamination"][task][name]
                  for task in entry["contamination"] for name in ("score", "low", "high", "p_value", "probability")}
        assert len(scores) % 5 == 0 < len(scores)
        logged = {m.key: m.value for m in models[entry["key"]].metrics}
        assert {name: logged[name] for name in scores} == scores == {n: curves.data.metrics[n] for n in scores}
        for name, value in _values(entry).items():
            assert curves.data.metrics[name] == value  # the last one: what its compare page shows
            history = [(m.step, m.value) for m in client.get_metric_history(curves.info.run_id, name)]
            assert sorted(history) == [(p["tokens"], p["metrics"][name]) for p in entry["line"]]
            own = [m for m in models[entry["key"]].metrics if m.key == name]
            assert [(m.value, m.step) for m in own] == [(value, entry["tokens"])]
            assert own[0].dataset_name in ("benchmark", "heldout")


def test_without_the_store_mlflows_numbers_are_compared(store: Path, tmp_path: Path, argosy: Argosy,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    here = _compared(store, argosy, "line:base", "line:mixed")
    elsewhere = tmp_path / "store"
    elsewhere.mkdir()
    gone = store.with_name("gone")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", default_uri(store))
    for path in store.glob("*-????????????"):  # the steps' directories are not to be seen
        gone.mkdir(exist_ok=True)
        shutil.move(path, gone / path.name)
    try:
        found = _compared(elsewhere, argosy, "line:base", "line:mixed")
        curves = _compared(elsewhere, argosy, _run(store, "base curves").info.run_id, "models:/base@reference")
    finally:
        for path in gone.iterdir():
            shutil.move(path, store / path.name)
    assert [e["source"] for e in found["entries"]] == ["MLflow", "MLflow"]
    for there, kept in zip(found["entries"], here["entries"], strict=True):
        assert _values(there) == _values(kept)
        assert _scores(there) == _scores(kept) != {}
        assert [p["tokens"] for p in there["line"]] == [p["tokens"] for p in kept["line"]] == [100_000, 200_000]
        errors = {n: m["stderr"] for n, m in kept["metrics"].items() if "/headline/" not in n}
        assert {n: m["stderr"] for n, m in there["metrics"].items()} == errors  # of results.json, its artifact
    assert {c["how"] for c in found["pairs"][0]["contrasts"] if c["metric"] == "bench/facts/plain/acc"} == {"unpaired"}
    assert _values(curves["entries"][0]) == _values(curves["entries"][1])


@pytest.mark.parametrize(("names", "words"), [
    (["line:nobody"], "line:nobody: no model line of that name has evaluated checkpoints"),
    (["line:bas"], "nearest: base"),
    (["models:/base@champion"], "its aliases: reference ('argosy promote' sets one)"),
    (["models:/nobody@reference"], "has no registered model 'nobody'"),
    (["@reference"], "the store has 2 model lines (base, mixed): name one, as models:/NAME@reference"),
    (["models:/base"], "allowed: models:/NAME@ALIAS, models:/NAME/VERSION, models:/m-ID"),
    (["models:/m-0123"], "has no logged model 'm-0123'"),
    (["runs:/" + "0" * 32], "has no run"),
    (["line:base", "--at", "tokens=1"], "its first is pretrain/p050"),
    (["line:base", "--metrics", "nothing/*"], "--metrics nothing/* matches none of"),
    ([" "], "an empty name")])
def test_what_is_not_there_is_told(names: list[str], words: str, store: Path, argosy: Argosy) -> None:
    assert words in argosy("compare", "--store", str(store), *names, code=2).err
