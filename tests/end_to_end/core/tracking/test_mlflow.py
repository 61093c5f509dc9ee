"""What is in MLflow equals what was logged, each once: SQLite, retries, models, results, names."""

import json
import math
import shutil
from pathlib import Path

import pytest

from argosy.core.tracking.__main__ import main
from argosy.core.tracking.mlflow.read import result_of
from argosy.core.tracking.mlflow.server import Server, create_database, default_uri, metric_name
from argosy.core.tracking.ship import Shipped
from argosy.core.tracking.tracker import Tracker
from workflows.local.shipping import PipelineTracker

LINE, PIPELINE = "demo 中文", "aaaabbbbcccc"


@pytest.fixture(scope="session")
def database(tmp_path_factory):
    """An empty MLflow database; making one takes seconds."""
    path = tmp_path_factory.mktemp("database") / "mlflow.db"
    create_database(path)
    return path


@pytest.fixture
def store(tmp_path, database, monkeypatch):
    """A store whose path has every character that URIs treat in their own way."""
    for name in ("MLFLOW_TRACKING_URI", "ARGOSY_STORE_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)  # MLflow makes a folder `mlruns` where it looks for artifacts
    path = tmp_path / "st ore %20#?é'"
    path.mkdir()
    shutil.copy(database, path / "mlflow.db")
    return path


def ship(store: Path) -> int:
    return main(["ship", "--store", str(store), "--once"])


def client(store: Path):
    return Server(default_uri(store), store).client


def runs(store: Path, line: str = LINE) -> dict:
    experiment = client(store).get_experiment_by_name(line).experiment_id
    found = client(store).search_runs([experiment])
    assert len({run.info.run_name for run in found}) == len(found)  # none twice
    return {run.info.run_name: run for run in found}


def history(store: Path, run, key: str) -> list[tuple[int, float]]:
    return sorted((m.step, m.value) for m in client(store).get_metric_history(run.info.run_id, key))


def node(store: Path, name: str, digest: str, part: str = "", pipeline: str = PIPELINE) -> Tracker:
    tracker = Tracker(store / f"{name}-{digest}" / "tracking")
    tracker.header(node=name, part=part, step=name, digest=digest, pipeline=pipeline, line=LINE)
    tracker.status("RUNNING")
    return tracker


def checkpoint(tracker: Tracker, name: str, tokens: int) -> Path:
    out = tracker.directory.parent
    path = out / "checkpoints" / name
    path.mkdir(parents=True)
    (path / "argosy.json").write_text(json.dumps({"stage": "pretrain", "step": 10, "tokens": tokens, "chat": False}))
    tracker.model(name, path, stage="pretrain", step=10, tokens=tokens, tags={"chat": "False"})
    return path


def test_equals_what_was_logged_over_a_crash_and_a_resume(store):
    pipeline = PipelineTracker(store, PIPELINE, LINE)
    pipeline.start({"preset": "demo"}, todo=1)
    keys = ["train/loss", "train/loss/中文", "train/loss/co@de", "a//b", "../up", "x" * 300, "x" * 299 + "y"]
    tracker = node(store, "pretrain", "0123456789ab")
    tracker.params({"lr": 0.001, "model.hidden/中": 64, "long": "v" * 9000, "bad\nname": "v"})
    for step in range(120):
        tracker.metrics(dict.fromkeys(keys, step * 0.37 - 1), step)
    assert ship(store) == 0
    first = runs(store)
    assert first["pretrain"].info.status == first[f"{LINE} {PIPELINE}"].info.status == "RUNNING"

    tracker = node(store, "pretrain", "0123456789ab")  # killed, started again from step 100
    for step in range(100, 150):
        tracker.metrics(dict.fromkeys(keys, step * 0.37 - 1), step)
    tracker.status("FAILED")
    assert ship(store) == 0
    assert runs(store)["pretrain"].info.status == "FAILED"
    node(store, "pretrain", "0123456789ab").status("FINISHED")
    pipeline.finish("FINISHED")
    assert ship(store) == 0

    found = runs(store)
    assert found.keys() == {"pretrain", f"{LINE} {PIPELINE}"}
    run, parent = found["pretrain"], found[f"{LINE} {PIPELINE}"]
    assert run.info.run_id == first["pretrain"].info.run_id
    assert run.info.status == parent.info.status == "FINISHED"
    assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert parent.data.params == {"preset": "demo"}
    assert {"lr": "0.001", "model.hidden/中": "64"}.items() <= run.data.params.items()
    assert run.data.params.keys() == {"lr", "model.hidden/中", "long", metric_name("bad\nname")}
    assert (run.data.metrics.keys(), len(run.data.metrics)) == ({metric_name(key) for key in keys}, len(keys))
    for key in keys:
        assert history(store, run, metric_name(key)) == [(s, s * 0.37 - 1) for s in range(150)]


def test_a_shipper_that_dies_between_sending_and_noting_it_sends_again_and_each_point_stands_once(store, monkeypatch):
    tracker = node(store, "pretrain", "0123456789ab")
    export = store / "other-ba9876543210" / "checkpoints" / "final"
    save, results = Shipped.save, {}
    for turn in range(4):
        for step in range(turn * 10, turn * 10 + 10):
            tracker.metrics({"a": step, "nan": math.nan, "up": math.inf, "down": -math.inf}, step)
        new = {f"acc{turn}/{i}": i / 7 for i in range(120)}  # MLflow 3.17 compares 100 of a model with those there
        results |= new
        tracker.model_metrics(export, new, tokens=100, dataset="facts", dataset_digest="d")
        tracker.model_metrics(export, {f"acc{turn}/0": 0.5}, tokens=100, dataset="other", dataset_digest="d")
        saves = iter([True] * turn)

        def dying(self: Shipped, saves=saves) -> None:
            if not next(saves, False):
                raise KeyboardInterrupt
            save(self)

        with monkeypatch.context() as patch:
            patch.setattr(Shipped, "save", dying)
            with pytest.raises(KeyboardInterrupt):
                ship(store)
    assert ship(store) == 0
    runs_ = runs(store)
    assert history(store, runs_["pretrain"], "a") == [(s, s) for s in range(40)]
    most = 1.7976931348623157e308  # as MLflow keeps infinities
    for key, kept in (("up", most), ("down", -most)):
        assert history(store, runs_["pretrain"], key) == [(s, kept) for s in range(40)]
    nan = history(store, runs_["pretrain"], "nan")
    assert [s for s, value in nan if math.isnan(value)] == list(range(40))
    for name in ("pretrain", f"{LINE} curves"):
        assert history(store, runs_[name], "acc1/7") == [(100, 1.0)]
        assert history(store, runs_[name], "acc1/0") == [(100, 0.0), (100, 0.5)]
    [model] = client(store).search_logged_models([runs_["pretrain"].info.experiment_id])
    logged = sorted((m.key, m.value) for m in model.metrics if m.dataset_name == "facts")
    assert logged == sorted(results.items())
    assert len(model.metrics) == len(results) + 4
    assert not (tracker.directory / "refused.jsonl").exists()


def test_checkpoints_are_external_models_with_their_results(store):
    train = node(store, "pretrain", "ffffffffffff")
    write = train.directory.parent / "node.json"
    write.write_text(json.dumps(
        {"config": {"lr": 1, "model": {"size": 2}}, "upstream": {"tokens": ["00"]}, "external": {}}))
    exports = [checkpoint(train, f"step.{n}", 1000 * n) for n in (1, 2)]
    for number, export in enumerate(exports, 1):
        evaluate = node(store, "evaluate", f"00000000000{number}", part=f"facts-{number}")  # found before the producer
        evaluate.model_metrics(export, {"bench/facts/plain/acc": number / 4, "probe/a/b": number}, tokens=1000 * number,
                               dataset="facts", dataset_digest="d" * 64)
    twin = node(store, "evaluate", "000000000003", part="twin")
    twin.model_metrics(exports[1], {"bench/facts/twin/acc": 1.0}, tokens=2000, branch="twin")
    for _ in range(2):
        assert ship(store) == 0
    found = runs(store)
    experiment = found["pretrain"].info.experiment_id
    models = {m.name: m for m in client(store).search_logged_models([experiment])}
    assert models.keys() == {f"{LINE}-pretrain-step_1", f"{LINE}-pretrain-step_2"}
    model = models[f"{LINE}-pretrain-step_2"]
    assert (model.status.name, model.source_run_id) == ("READY", found["pretrain"].info.run_id)
    assert {"stage": "pretrain", "step": "10", "tokens": "2000", "chat": "False", "path": str(exports[1]),
            "pipeline_run": found[f"{LINE} {PIPELINE}"].info.run_id, "argosy.checkpoint": "ffffffffffff/step.2",
            "mlflow.model.isExternal": "true"}.items() <= model.tags.items()
    assert model.tags["config_digest"] != model.tags["data_digest"]
    assert model.params == {"lr": "1", "model.size": "2"}
    results = {m.key: (m.value, m.step, m.dataset_name, m.dataset_digest) for m in model.metrics}
    dataset = ("facts", "d" * 36)
    assert results == {"bench/facts/plain/acc": (0.5, 2000, *dataset), "probe/a/b": (2.0, 2000, *dataset),
                       "bench/facts/twin/acc": (1.0, 2000, None, None)}
    curves = found[f"{LINE} curves"]
    assert curves.info.status == "FINISHED"
    assert curves.info.end_time
    assert history(store, curves, "bench/facts/plain/acc") == [(1000, 0.25), (2000, 0.5)]
    assert found[f"{LINE} curves (twin)"].data.metrics == {"bench/facts/twin/acc": 1.0}
    inputs = client(store).get_run(found["evaluate-facts-2"].info.run_id).inputs
    assert [i.model_id for i in inputs.model_inputs] == [model.model_id]
    assert [(i.dataset.name, i.dataset.digest) for i in inputs.dataset_inputs] == [("facts", "d" * 36)]
    outputs = client(store).get_run(found["pretrain"].info.run_id).outputs.model_outputs
    assert sorted(o.model_id for o in outputs) == sorted(m.model_id for m in models.values())


@pytest.mark.parametrize("first", ["base", "branch"])
def test_a_branch_begins_with_the_results_of_its_base_that_it_has_too(store, first):
    exports = [checkpoint(node(store, "pretrain", "ffffffffffff"), f"step.{n}", 1000 * n) for n in (1, 2)]
    for at, name in enumerate(("base", "branch") if first == "base" else ("branch", "base")):
        evaluate = node(store, "evaluate", f"00000000000{at}", part=name)
        if name == "base":
            evaluate.model_metrics(exports[0], {"acc": 0.25, "only/base": 1.0}, tokens=1000)
        else:
            values = {"acc": 0.5, "only/branch": 1.0}
            evaluate.model_metrics(exports[1], values, tokens=2000, branch="soup", base=(exports[0], 1000))
        assert ship(store) == 0
    curves = runs(store)[f"{LINE} curves (soup)"]
    assert history(store, curves, "acc") == [(1000, 0.25), (2000, 0.5)]
    assert curves.data.metrics == {"acc": 0.5, "only/branch": 1.0}


def test_of_an_evaluation_that_is_tried_again_the_new_results_count(store):
    train = node(store, "pretrain", "ffffffffffff")
    export = checkpoint(train, "final", 1000)
    evaluate = node(store, "evaluate", "000000000001")
    report = evaluate.directory.parent / "results.json"
    for found in ({"a": 0.5, "b": 1.0}, {"a": 0.25, "b": 1.0, "c": 2.0}):
        report.write_text(json.dumps(found))
        evaluate.artifact(report)
        evaluate.model_metrics(export, found, tokens=1000, dataset="facts", dataset_digest="d" * 12)
        assert ship(store) == 0
    found_runs = runs(store)
    [model] = client(store).search_logged_models([found_runs["pretrain"].info.experiment_id])
    assert result_of(model, Server(default_uri(store), store)).metrics == {"a": 0.25, "b": 1.0, "c": 2.0}
    run = found_runs["evaluate"]
    assert run.data.metrics == {"a": 0.25, "b": 1.0, "c": 2.0}
    assert history(store, run, "b") == [(1000, 1.0)]
    assert len(client(store).get_run(run.info.run_id).inputs.dataset_inputs) == 1
    assert json.loads(Path(client(store).download_artifacts(run.info.run_id, "results.json")).read_text())["c"] == 2.0


def test_artifacts_are_below_the_store_and_a_missing_one_is_noted(store):
    tracker = node(store, "clean", "0123456789ab")
    report = tracker.directory.parent / "report.json"
    report.write_text("{}")
    tracker.artifact(report, "reports")
    tracker.artifact(report.with_name("gone.json"))
    assert ship(store) == 0
    run = runs(store)["clean"]
    assert [a.path for a in client(store).list_artifacts(run.info.run_id, "reports")] == ["reports/report.json"]
    assert [p.name for p in (store / "mlartifacts").rglob("report.json")] == ["report.json"]
    assert "gone.json" in (tracker.directory / "refused.jsonl").read_text()


def test_two_stores_on_one_server_and_one_that_was_emptied_have_runs_of_their_own(store, tmp_path):
    """One digest, computed three times: each point once in each run, model and curve, which name each other."""
    uri = default_uri(store)
    for name in ("one", "two", "one"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        train = node(tmp_path / name, "pretrain", "ffffffffffff", pipeline=f"{PIPELINE}-{name}")
        train.metrics({"loss": 0.5}, 1)
        export = checkpoint(train, "final", 1000)
        node(tmp_path / name, "evaluate", "000000000001").model_metrics(export, {"acc": 0.25}, tokens=1000)
        assert main(["ship", "--store", str(tmp_path / name), "--once", "--tracking-uri", uri]) == 0
        elsewhere = node(store, "evaluate", "000000000002")  # of a checkpoint that lies in another store
        elsewhere.model_metrics(export, {f"of/{name}": 0.75}, tokens=1000)
    assert ship(store) == 0
    experiment = client(store).get_experiment_by_name(LINE).experiment_id
    found = client(store).search_runs([experiment], order_by=["attributes.start_time"])
    trained = [run for run in found if run.info.run_name == "pretrain"]
    curves = [run for run in found if "curves" in run.info.run_name and "acc" in run.data.metrics]
    assert [len(trained), len(curves)] == [3, 3]
    assert [history(store, run, "loss") for run in trained] == [[(1, 0.5)]] * 3
    assert [history(store, run, "acc") for run in curves] == [[(1000, 0.25)]] * 3
    models = client(store).search_logged_models([experiment])
    assert sorted([m.key for m in model.metrics] for model in models) == [["acc"], ["acc", "of/one"], ["acc", "of/two"]]
    assert [len(run.data.tags.get("argosy.equal_runs", "").split()) for run in trained] == [0, 1, 2]


def test_what_mlflow_refuses_is_set_aside_and_the_rest_goes(store):
    tracker = node(store, "pretrain", "0123456789ab")
    assert ship(store) == 0
    client(store).log_param(runs(store)["pretrain"].info.run_id, "b", 2)
    tracker.params({"a": 1, "b": 3, "c": 4})  # MLflow keeps the first value of a param
    tracker.metrics({"m": 1}, 1)
    assert ship(store) == 0
    run = runs(store)["pretrain"]
    assert (run.data.params, run.data.metrics) == ({"a": "1", "b": "2", "c": "4"}, {"m": 1})
    refused = [json.loads(line) for line in (tracker.directory / "refused.jsonl").read_text().splitlines()]
    assert [entry["item"] for entry in refused] == [{"key": "b", "value": "3"}]


@pytest.mark.parametrize("uri", ["foo://user:secret@host", "http://user:secret@127.0.0.1:9"])
def test_a_wrong_uri_says_what_where_it_is_kept_and_how_to_send_it_later(store, uri, capfd, monkeypatch):
    node(store, "pretrain", "0123456789ab").metrics({"a": 1}, 1)
    assert main(["ship", "--store", str(store), "--once", "--tracking-uri", uri]) == 1
    said = capfd.readouterr().err
    assert "secret" not in said
    for part in ("does not take metrics", "Nothing is lost", "spool.jsonl", "--once", "set --tracking-uri."):
        assert part in said
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)  # as a run's shipper has it, whose command has no such option
    assert ship(store) == 1
    assert "set MLFLOW_TRACKING_URI." in capfd.readouterr().err
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert ship(store) == 0
    assert history(store, runs(store)["pretrain"], "a") == [(1, 1.0)]
