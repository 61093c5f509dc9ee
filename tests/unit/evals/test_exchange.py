"""Results in the files of other harnesses: what lm-eval itself wrote comes in as our own run of the same tasks has it,
ours go out and come back equal, and what cannot be read is refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from argosy.core.errors import InputError
from argosy.core.store.files import make_directory, write_json
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.results.items import read_items
from argosy.evidence.results.items import write_items as write_rows
from argosy.evidence.results.rows import Rows
from argosy.evidence.results.values import plain
from evals.exchange import Exported, lm_eval_files, results_files
from evals.exchange.imported import read_results
from tests.command_line import Argosy
from tests.comparison_fixtures import declared, node
from tests.evaluation_fixtures import ask_benchmarks, make_items, make_language_model, write_items
from tests.lm_eval_fixtures import hflm, write_three_kinds
from tests.report_fixtures import make_store

LIGHTEVAL = {  # as its documentation shows a file of results
    "config_general": {"lighteval_sha": "203045a", "num_fewshot_seeds": 1, "job_id": "", "model_name": "org/gpt2"},
    "results": {"gsm8k|0": {"em": 0.25, "em_stderr": 0.05, "odd": 3.0}, "leaderboard|arc:challenge|25": {"acc": 0.5},
                "mmlu:_average|5": {"acc": 0.3, "acc_stderr": 0.01}, "all": {"em": 0.25}},
    "versions": {"gsm8k|0": 0}, "summary_tasks": {}, "summary_general": {},
    "config_tasks": {"gsm8k|0": {"name": "gsm8k", "metrics": [{"metric_name": "odd", "higher_is_better": False}]}},
}  # fmt: skip


def lm_eval_writes(root: Path, model: Any) -> Path:
    """Results and samples of lm-eval's own run, written by its own tracker."""
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    out = root / "theirs"
    tracker = EvaluationTracker(output_path=str(out))
    found = simple_evaluate(hflm(model), tasks=["both", "said"], bootstrap_iters=10, log_samples=True,
                            task_manager=TaskManager(include_path=str(root), include_defaults=False),
                            evaluation_tracker=tracker)  # fmt: skip
    samples = found.pop("samples")
    tracker.save_results_aggregated(results=found, samples=samples)
    for task, some in samples.items():
        tracker.save_results_samples(task_name=task, samples=some)
    return out


@pytest.mark.usefixtures("own_tasks_alone")
def test_what_lm_eval_writes_is_what_our_run_of_its_tasks_finds(tmp_path: Path) -> None:
    write_three_kinds(tmp_path)
    model = make_language_model()
    out = lm_eval_writes(tmp_path, model)
    theirs, _, suite = read_results([out], "plain", {})
    ours = ask_benchmarks(model, tmp_path, {"lm_eval": ["both", "said"], "include_path": str(tmp_path)})
    shared = ours.metrics.keys() & theirs.metrics.keys()
    assert {"bench/both/plain/acc", "bench/few/plain/acc_norm", "bench/said/first_letter/exact_match"} <= shared
    for name in shared:
        assert theirs.metrics[name] == pytest.approx(ours.metrics[name], abs=1e-9), name
    rows = {(r["variant"], r["id"]): r for r in theirs.rows}
    assert len(rows) == len(theirs.rows) == len(ours.rows)
    for row in ours.rows:
        own = rows[row["variant"], row["id"]]
        for key in ("correct", "chosen", "gold", "text", "extracted", "lang", "item", "groups", "acc_norm"):
            assert own.get(key) == row.get(key), (row["id"], key)
        assert own.get("scores") == pytest.approx(row.get("scores"), abs=1e-4)
    assert suite == "lm-eval"
    found, _, _ = read_results([out], "", {"few": "arc"})  # without --form theirs have names of their own
    assert {"bench/arc/lm_eval/acc", "bench/said/lm_eval-strict/exact_match"} <= found.metrics.keys()
    assert not any("/plain/" in name for name in found.metrics)


def test_results_of_lighteval_are_metrics(tmp_path: Path) -> None:
    write_json(tmp_path / "results_1.json", LIGHTEVAL)
    found, model, suite = read_results([tmp_path], "", {})
    assert (model, suite) == ("gpt2", "lighteval")
    assert found.metrics == {"bench/gsm8k/lighteval/em": 0.25, "bench/gsm8k/lighteval/odd": 3.0,
                             "bench/arc_challenge/lighteval-25shot/acc": 0.5, "bench/mmlu/lighteval-5shot/acc": 0.3}
    assert found.stderr["bench/gsm8k/lighteval/em"] == 0.05
    assert (found.kinds["bench/gsm8k/lighteval/em"].share, found.kinds["bench/gsm8k/lighteval/odd"].better) == (
        True, "lower")  # fmt: skip


def test_details_of_lighteval_are_answers_to_items(tmp_path: Path) -> None:
    time = "2025-01-15T10-30-00.1"
    write_json(make_directory(tmp_path / "results/org/gpt2") / f"results_{time}.json", LIGHTEVAL)
    folder = make_directory(tmp_path / f"details/org/gpt2/{time}")
    write_details(folder / f"details_gsm8k|0_{time}.parquet", [
        ({"query": "1 + 1?", "choices": ["2"], "gold_index": [0], "id": "7"}, {"text": ["It is 2."], "logprobs": []},
         {"em": 1.0, "odd": 3.0})])
    write_details(folder / f"details_leaderboard|arc:challenge|25_{time}.parquet", [
        ({"query": "问？", "choices": [" a", " b"], "gold_index": 1, "id": ""}, {"text": [], "logprobs": [-2.5, -1.0]},
         {"acc": 1}),
        ({"query": "Q?", "choices": [" a", " b"], "gold_index": 1, "id": ""}, {"text": [], "logprobs": [-0.5, -1.0]},
         {"acc": 0})])
    found, _, _ = read_results([tmp_path], "", {})
    said, *chosen = sorted(found.rows, key=lambda row: row["task"], reverse=True)
    assert (said["id"], said["text"], said["correct"], said["odd"]) == ("gsm8k/7", "It is 2.", True, 3.0)
    assert [(row["variant"], row["id"], row["lang"]) for row in chosen] == [
        ("lighteval-25shot", "arc_challenge/0", "zh"), ("lighteval-25shot", "arc_challenge/1", "en")]
    assert [(row["chosen"], row["gold"], row["correct"], row["scores"]) for row in chosen] == [
        (1, 1, True, [-2.5, -1.0]), (0, 1, False, [-0.5, -1.0])]
    write_details(folder / f"details_gsm8k|0_{time}.parquet", [("a doc", "an answer", "a metric")])
    with pytest.raises(InputError, match=r"gsm8k.* row 0: .* is not as lighteval writes it"):
        read_results([tmp_path], "", {})
    (folder / f"details_gsm8k|0_{time}.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"is no file of lighteval's details.*import the numbers alone"):
        read_results([tmp_path], "", {})


def write_details(path: Path, records: list[tuple[Any, ...]]) -> None:
    """Write the columns that lighteval's documentation names."""
    columns = zip(*records, strict=True)
    pq.write_table(pa.table(dict(zip(("doc", "model_response", "metric"), map(list, columns), strict=True))), path)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("stored") / "runs", items=20).root


def test_ours_go_out_and_come_back_beside_ours(store: Path, tmp_path: Path, argosy: Argosy) -> None:
    at = ("--store", str(store))
    for of, name in (("lm-eval", "same"), ("lighteval", "light")):
        argosy("results", "export", "sft", "--as", of, "--out", str(tmp_path / of), *at)
        assert f"import:{name}" in argosy("results", "import", str(tmp_path / of), "--name", name, *at).out
    found = json.loads(argosy("compare", "sft", "import:same", "import:light", "--all", "--json", *at).out)
    for pair, how in zip(found["pairs"], ("paired", "unpaired"), strict=True):
        acc = [c for c in pair["contrasts"] if c["metric"].startswith("bench/") and c["metric"].endswith("/acc")]
        assert len(acc) > 10
        assert all(c["difference"] == 0 for c in acc)
        assert how in {c["how"] for c in acc}
    argosy("results", "import", str(tmp_path / "lm-eval"), "--name", "best", *at)
    nobody = ("--checkpoint", "nobody")
    assert "'nobody'" in argosy("results", "import", str(tmp_path / "lm-eval"), *nobody, *at, code=2).err


def test_every_form_comes_back_as_the_questions_that_it_was(tmp_path: Path) -> None:
    write_items(tmp_path / "data/q.jsonl", make_items(8))
    written = {"generative": {"max_tokens": 4}}
    variants = {"plain": None, "written": written, "reasoned": {"chain_of_thought": {"max_tokens": 8}},
                "orders": [{"permuted": {"k": 3}}, written], "pride": {"pride": {"share": 0.5}}}
    section = {"tasks": {"q": ["q.jsonl"]}, "variants": variants}
    rows = ask_benchmarks(make_language_model(), tmp_path / "data", section).rows
    evaluation = node(tmp_path, "evaluate", "evaluate", {}, {})
    write_rows(evaluation, rows)
    metrics = {f"bench/q/{name}/acc": 0.5 for name in variants}
    ours = Checkpoint("a", "a", "sft", "final", 1, 0, metrics=metrics, kinds=declared(metrics))
    ours.evaluations.append(evaluation)
    lm_eval_files.write(Exported("a", ours, {}), tmp_path / "out")
    found = Rows(read_results([tmp_path / "out"], "", {})[0].rows)
    assert found.groups.keys() == ours.rows.groups.keys() == {("q", name) for name in variants}
    for group in found.groups:
        assert plain(found.groups[group], "acc") == plain(ours.rows.groups[group], "acc")


def test_a_share_in_percent_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "results_1.json", {"results": {"t": {"acc,none": 62.5}}, "model_name": "m"})
    with pytest.raises(InputError, match=r"results_1.json: acc of t is 62.5, allowed: 0 to 1, .*: divide percentages"):
        read_results([tmp_path], "", {})
    write_json(tmp_path / "results_1.json", LIGHTEVAL | {"results": {"gsm8k|0": {"extractive_match": 25}}})
    with pytest.raises(InputError, match=r"extractive_match of gsm8k is 25, allowed: 0 to 1"):
        read_results([tmp_path], "", {})


def test_files_for_lm_eval_are_read_by_its_own_table(store: Path, tmp_path: Path, argosy: Argosy) -> None:
    from lm_eval.utils import make_table

    argosy("results", "export", "sft", "--as", "lm-eval", "--out", str(tmp_path), "--store", str(store))
    (results,) = results_files([tmp_path])
    assert "plain" not in make_table(json.loads(results.read_text()))
    (samples,) = tmp_path.glob("samples_facts_*.jsonl")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    known = {(r["variant"], r["id"]): r for path in store.glob("evaluate-*sft*") for r in read_items(path)
             if "correct" in r}  # fmt: skip
    assert len(lines) == len(known)
    assert all(line["doc"]["question"] for line in lines if line["filter"] == "none")


def test_logs_for_inspect_have_what_its_format_requires(store: Path, tmp_path: Path, argosy: Argosy) -> None:
    argosy("results", "export", "sft", "--as", "inspect", "--out", str(tmp_path), "--store", str(store))
    logs = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.json"))]
    assert len(logs) > 5
    for log in logs:
        assert (log["version"], log["status"]) == (2, "success")
        assert {"created", "task", "dataset", "model", "config"} <= log["eval"].keys()
        right = [sample["scores"]["argosy"]["value"] == "C" for sample in log["samples"]]
        assert sum(right) / len(right) == pytest.approx(log["results"]["scores"][0]["metrics"]["acc"]["value"])
        for sample in log["samples"]:
            assert {"id", "epoch", "input", "target"} <= sample.keys()
            assert (sample["scores"]["argosy"]["answer"] == sample["target"]) == (
                sample["scores"]["argosy"]["value"] == "C")  # fmt: skip


@pytest.mark.parametrize(
    ("content", "why"),
    [("{", "cannot be read as JSON"), ("[]", "has no `results`"), ('{"results": {}}', "has no `results`"),
     ('{"eval": {}, "plan": {}}', "a log of Inspect"), ('{"results": {"t": {"acc,none": "N/A"}}}', "no metric"),
     ('{"results": {"a/b": {"acc,none": 0.5}}}', "is no name")])  # fmt: skip
def test_what_cannot_be_read_is_refused(content: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "results_1.json").write_text(content)
    with pytest.raises(InputError, match=why):
        read_results([tmp_path], "", {})


def test_two_files_of_one_metric_a_broken_sample_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="allowed: a results_"):
        results_files([tmp_path])
    content = {"results": {"t": {"acc,none": 0.5}}, "config": {"model": "hf"}, "model_name": "m"}
    write_json(tmp_path / "results_20.json", content)
    (tmp_path / "samples_t_20.jsonl").write_text('{"doc_id": 1}\n')
    with pytest.raises(InputError, match=r"samples_t_20.jsonl:1 is no sample"):
        read_results([tmp_path], "", {})
    (tmp_path / "samples_t_20.jsonl").unlink()
    write_json(tmp_path / "results_21.json", content)
    with pytest.raises(InputError, match="in two of the files"):
        read_results([tmp_path], "", {})
