"""Commands that read a store: run, status, logs, report, compare, why, on small pipelines."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.core.statistics.metric import as_records
from argosy.model.train.checks import TRAINING
from steps.noop import NoopConfig
from tests.command_line import Argosy
from tests.comparison_fixtures import declared
from workflows.graph import Node
from workflows.lifecycle import LifecycleConfig
from workflows.stored.last_run import model_directory

pytestmark = pytest.mark.usefixtures("no_mlflow", "warm")


def noops(config: LifecycleConfig) -> list[Node]:
    """A pipeline of three steps; the lifecycle's seed goes into the first, its `name` says what fails."""
    given = str(Path("given.txt").absolute())
    first = Node("data", "noop", NoopConfig(index=config.seed, inputs=(given,)))
    fail = "error" if config.name == "failing" else ""
    second = Node("sft", "noop", NoopConfig(size=4 + len(fail), fail=fail), inputs={"after": [first]})
    return [first, second, Node("compare", "noop", NoopConfig(), inputs={"after": [second]})]


@pytest.fixture(autouse=True)
def _store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # tables are as wide as the terminal
    Path("given.txt").write_text("given")
    for command in ("run", "status", "plan"):
        monkeypatch.setattr(f"workflows.cli.{command}.lifecycle", noops)


def test_a_failure_ends_with_1_and_every_command_says_so_and_where_the_log_is(argosy: Argosy) -> None:
    store = ("--store", "other")
    argosy("run", "--plain", *store)
    [earlier] = Path("other").glob("sft-*")
    argosy("run", "--plain", *store, "name=failing", code=1)
    out = argosy("status", *store, code=1).out
    assert "1 done, 1 failed, 1 blocked" in out
    assert "failed on request; log: " in out
    assert out.splitlines()[3].split() == ["compare", "blocked", "needs", "sft,", "which", "failed"]
    assert "attempt 1" in argosy("logs", *store, "sft").out
    said = argosy("logs", *store, "compare", code=2).err
    assert "compare has not run: it is blocked, as sft failed; 'argosy logs sft --store other' shows why" in said
    assert "nearest: sft; stages: data, sft, compare\n" in argosy("logs", *store, "sff", code=2).err
    said = argosy("compare", *store, "sft", code=2).err
    assert "sft failed before: failed on request; 'argosy logs sft --store other' shows more" in said
    assert "NOT DONE (failed before: failed on request)" in argosy("why", *store, "sft").out
    for command in ("chat", "generate", "evaluate", "judge --judge x --prompts y data"):
        said = argosy(*command.split(), "sft", *store, code=2).err
        assert f"--store other' shows more; the newest that is done is {earlier}\n" in said


def test_a_folder_does_not_hide_the_stage_of_its_name(argosy: Argosy) -> None:
    argosy("run", "--plain")
    for folder in ("sft", "sft/p100", "elsewhere"):
        Path(folder).mkdir()
        Path(folder, "config.json").write_text("{}")
        assert str(model_directory(Path("runs"), f"./{folder}")) == folder
    sft = str(_directories("sft")[0])
    said = argosy("why", "sft")
    assert (said.out.split()[:2], said.err) == (
        ["sft", sft], "sft: the stage sft of the last run is taken; the folder is ./sft\n")
    assert "sft has no checkpoint 'p100'" in argosy("generate", "sft/p100", "x", code=2).err
    assert str(model_directory(Path("runs"), "elsewhere")) == "elsewhere"


def test_status_tells_what_an_interrupted_stage_lost(argosy: Argosy) -> None:
    argosy("run", "--plain")
    path = _directories("sft")[0] / "run.json"
    run = json.loads(path.read_text())
    first = {"started": 0.0, "ended": 600.0, "exit": 137, "cause": "oom", "gpus": 2, "price": 3.0,
             "runs": [{"started": 0.0, "began": 60.0, "from": 0, "done": 10, "at": 500, "undone": 0, "stalled": 40}]}
    last = {"started": 630.0, "ended": 1200.0, "exit": 0, "cause": "", "gpus": 2, "price": 3.0,
            "runs": [{"started": 630.0, "began": 660.0, "from": 5, "done": 20, "at": 1180, "undone": 0, "stalled": 0}]}
    line = "sft: goodput 61.7% of 20m 00s; lost: start-up 1m 30s, work done again 3m 20s, saving 40s, "
    for history in ([first, last], [last]):
        path.write_text(json.dumps(run | {"history": history}))
        assert (line in argosy("status").out) == (len(history) > 1)
    assert "sft: goodput 94.7% of 9m 30s; lost: start-up 30s; 0.317 GPU-hours; cost 0.95" in argosy(
        "status", "--goodput").out


def test_goodput_says_which_stage_failed_before_its_first_step(argosy: Argosy, monkeypatch: pytest.MonkeyPatch) -> None:
    argosy("run", "--plain", "name=failing", code=1)
    assert "no goodput" not in argosy("status", "--goodput", code=1).out  # it does not train
    monkeypatch.setattr("workflows.cli.status.definition", lambda step: SimpleNamespace(metrics=TRAINING))
    said = argosy("status", "--goodput", code=1).out
    assert "sft: no goodput, as it failed before its first training step" in said
    assert "data: " not in said


def test_requests_learnt_from_earlier_runs_are_shown_and_apply_where_wanted(argosy: Argosy) -> None:
    argosy("run", "--plain")
    path = _directories("data")[0] / "run.json"
    run = json.loads(path.read_text())
    run["history"][-1]["peak_rss_mb"] = 100.0  # whatever the interpreter takes
    path.write_text(json.dumps(run))
    assert "would do" not in argosy("plan").out  # nothing is to run
    told = argosy("plan", "seed=5").out
    assert told.startswith("data: asked 1 GB, measured peak 0.1 GB: 0.25 GB would do\n")
    assert "\nlearn_resources=true applies them" in told
    assert "\nthese requests apply (learn_resources)" in argosy("plan", "seed=5", "learn_resources=true").out
    for seed, given, asked in ((5, "true", 0.25), (6, "false", 1.0)):
        argosy("run", "--plain", f"seed={seed}", f"learn_resources={given}", "--to", "data")
        newest = max(_directories("data"), key=lambda path: (path / "run.json").stat().st_mtime)
        assert json.loads((newest / "run.json").read_text())["history"][-1]["memory_gb"] == asked


def test_what_a_step_could_not_use_is_shown_by_run_and_status(argosy: Argosy) -> None:
    assert "kept aside" not in argosy("run", "--plain").out
    path = _directories("data")[0].absolute()
    done = json.loads((path / "outputs.json").read_text())
    rejected = {"no text": 1, "not JSON": 11, "c": 1, "d": 1}
    lost = {"en": {}, "web": {"pii": 0.0, "language": 0.1}, "poems": {"language": 0.01, "gopher_quality": 0.76}}
    damaged = {f"{n}.jsonl.gz": "cut off after line 5" for n in range(5)}
    done["outputs"] |= {"rejected": rejected, "skipped": ["a.bin"], "lost": lost, "damaged": damaged}
    (path / "rejects").mkdir()
    (path / "outputs.json").write_text(json.dumps(done))
    for command in (["run", "--plain"], ["status"]):
        out = argosy(*command).out
        assert f"data: 14 lines kept aside in {path}/rejects: not JSON (11), no text (1), c (1) and 1 more\n" in out
        assert "warning: 0.jsonl.gz was not read whole (cut off after line 5). Copy or make it anew" in out
        assert "warning: 2 more files not read whole" in out
        assert "data: 1 file left out, empty, linked or of unknown format: a.bin\n" in out
        assert "data: channel web lost 10.0%: language 10.0%" in out
        assert "data: warning: channel poems lost 77.0%: gopher_quality 76.0%, language 1.0%: look with `argosy" in out
        assert "{name: gopher_quality, skip_channels: [poems]}" in out


def test_why_goes_back_to_configs_and_files_and_says_what_changed_since(argosy: Argosy) -> None:
    argosy("run", "--plain", "seed=4")
    lines = argosy("why", "compare").out.splitlines()
    shown = [line.strip() for line in lines]
    assert [line.split()[1 if line.startswith("compare") else 2] for line in shown if "runs/" in line] == [
        *(f"runs/{path.name}" for path in [*_directories("compare")]),
        *(path.name.partition("-")[0] for name in ("sft", "data") for path in _directories(name))]
    assert "size = 4" in shown
    assert "index = 4" in shown
    given = Path("given.txt").absolute()
    assert any(line.startswith(f"inputs: {given}  sha256 ") and line.endswith("unchanged") for line in shown)
    given.write_text("other")
    assert "CHANGED since" in argosy("why", str(_directories("sft")[0])).out
    given.unlink()
    assert "not there any more" in argosy("why", "sft").out


def _directories(name: str) -> list[Path]:
    return list(Path("runs").glob(f"{name}-*"))


def _write(directory: str, outputs: dict[str, Any], **made_from: Any) -> None:
    path = Path("runs", directory)
    path.mkdir(parents=True)
    record = {"node": directory.split("-")[0], "part": "", "step": "noop", "version": 1, "config": {}, "upstream": {},
              "external": {}, "digest": directory[-12:], **made_from}  # fmt: skip
    (path / "outputs.json").write_text(json.dumps({"outputs": outputs, "made_from": record}))


def _evaluated_store() -> None:
    """Two models; the first has two exports, each evaluated with one suite, and one with a second suite."""
    for number, name in ((1, "sft"), (2, "twin")):
        exports = [{"name": each, "path": f"checkpoints/{each}", "step": 1, "tokens": 1} for each in ("p050", "p100")]
        _write(f"{name}-00000000000{number}", {"exports": exports, "final": "checkpoints/p100"})
        for export in ("p050", "p100"):
            Path("runs", f"{name}-00000000000{number}", "checkpoints", export).mkdir(parents=True)
    values = {("sft", 1, "p050"): 0.3, ("sft", 1, "p100"): 0.4, ("twin", 2, "p100"): 0.9}
    for index, ((name, number, export), value) in enumerate(values.items()):
        metric = "bench/quiz/plain/acc"
        outputs = {"checkpoint": {"name": export}, "metrics": {metric: value}, "stderr": {metric: 0.1},
                   "kinds": as_records(declared([metric]))}
        _write(f"evaluate-{name}-{export}-{index:012}", outputs, upstream={"checkpoint": [f"00000000000{number}"]})
    more = {"checkpoint": {"name": "p100"}, "metrics": {"heldout/bpb": 1.5}, "stderr": {"heldout/bpb": float("nan")}}
    _write("evaluate-sft-p100-heldout-000000000077", more, upstream={"checkpoint": ["000000000001"]})
    directories = {"sft": "sft-000000000001", "twin": "twin-000000000002", "data": "data-000000000003"}
    directories["evaluate/x"] = "evaluate-x-000000000004"
    Path("runs/last_run.json").write_text(json.dumps({"config": {}, "directories": directories}))


def test_compare_by_stage_export_and_directory(argosy: Argosy) -> None:
    _evaluated_store()
    out = argosy("compare", "sft", "sft/p050", "runs/twin-000000000002", "runs/sft-000000000001/checkpoints/p050").out
    named = [line.split()[:2] for line in out.splitlines()[1:5]]
    assert named == [["A", "sft"], ["B", "sft/p050"], ["C", "twin"], ["D", "sft/p050"]]
    rows = {line for line in out.splitlines() if line.startswith("bench/quiz/plain/acc")}
    assert any(line.split()[:6] == ["bench/quiz/plain/acc", "40.0", "%", "90.0", "%", "+50.0"] for line in rows)  # twin
    assert "Of one of them only, so not compared: 1 metrics, such as heldout/bpb." in out


def test_a_checkpoint_of_another_store_has_the_evaluations_of_both(argosy: Argosy) -> None:
    _evaluated_store()
    Path("other").mkdir()
    for name in ("sft-000000000001", "evaluate-sft-p100-heldout-000000000077"):
        Path("runs", name).rename(Path("other", name))
    _, second = json.loads(argosy("compare", "twin", "other/sft-000000000001", "--json").out)["entries"]
    assert {name: metric["value"] for name, metric in second["metrics"].items()} == {
        "bench/quiz/plain/acc": 0.4, "heldout/bpb": 1.5}  # of runs, and of its own
    assert [each["checkpoint"] for each in second["line"]] == ["sft/p050", "sft"]


def test_compare_names_what_is_not_there(argosy: Argosy) -> None:
    _evaluated_store()
    for name, words in (
        ("sft/p055", "sft has no checkpoint 'p055'; nearest: p050"),
        ("twin/p050", "/runs/twin-000000000002/checkpoints/p050 --store runs', with the suites of"),
        ("evaluate", "evaluate is not one node; name a part of it: evaluate/x"),
        ("swin", "'swin' is no node of the last run, and no directory; nearest: twin; stages: sft, twin")):
        assert words in argosy("compare", "sft", name, code=2).err


def test_a_reward_model_is_not_compared(argosy: Argosy) -> None:
    _evaluated_store()
    export = Path("runs/twin-000000000002/checkpoints/p050")
    (export / "config.json").write_text('{"architectures": ["LlamaForSequenceClassification"]}')
    export.rename("elsewhere")
    said = argosy("compare", "sft", "elsewhere", code=2).err
    assert "elsewhere is a LlamaForSequenceClassification (a reward model, a classifier): it predicts no tokens" in said


def test_report_is_the_last_runs_or_the_newest(argosy: Argosy) -> None:
    own, other = Path("runs/compare-00000000000b"), Path("runs/compare-00000000000a")
    for path in (own, other):
        path.mkdir(parents=True)
    (other / "report.html").write_text("other")
    Path("runs/last_run.json").write_text(json.dumps({"config": {}, "directories": {"compare": own.name}}))
    said = argosy("report")
    assert (said.out, "this is another config's" in said.err) == (f"{other}/report.html\n", True)
    (own / "report.html").write_text("own")
    assert argosy("report").out == f"{own}/report.html\n"


def test_a_truncated_result_is_a_sentence(argosy: Argosy) -> None:
    """Not a Python warning with its line of code; the step counts as not done."""
    argosy("run", "--plain")
    [outputs] = Path("runs").glob("data-*/outputs.json")
    outputs.write_text(outputs.read_text()[:20])
    err = argosy("compare", "data", code=2).err
    assert err.startswith("warning: ")
    assert "UserWarning" not in err
    assert err.count("outputs.json is broken (truncated or not ours): taken as not done\n") == 1
    assert err.endswith("\nargosy compare: data is not done: its outputs.json is broken; 'argosy run', with the "
                        "options of the last time, runs it again\n")
