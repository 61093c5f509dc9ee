"""The lifecycle on a real controller: the laptop's bytes, one pod the second time, and only what changed; of several
ranks, of many shards, of a tree of post-training too. A night evaluates what is new."""

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_record
from argosy.core.store.goodput import WHO
from argosy.core.store.lease import LEASE
from argosy.core.store.step_files import RUN, read_done
from tests.cluster.cluster import GROUP, VERSION, Cluster, pod_nodes
from tests.end_to_end import crash
from tests.end_to_end.crash import RANKS
from tests.evaluation_fixtures import make_items, write_items
from tests.store_comparison import differences
from workflows.budget import spent_by

pytestmark = pytest.mark.cluster
run = partial(crash.run, popen=subprocess.Popen)  # a warm process has libraries imported that tokenizers note


def ran(cluster: Cluster, name: str) -> list[str]:
    """Tasks of a workflow that had pods, by their batches."""
    return sorted({node["displayName"].partition("(")[0] for node in pod_nodes(cluster.get(name))})


def test_the_same_bytes_as_on_the_laptop_then_one_pod_then_only_what_changed(
    cluster: Cluster, store: Path, laptop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WHO["person"], "ann")
    name = cluster.submit()
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    assert differences(store, laptop) == []
    assert differences(laptop, store) == []
    spent = spent_by(store, "person")

    monkeypatch.setenv(WHO["person"], "wei")
    again = cluster.submit()
    assert cluster.wait(again)["status"]["phase"] == "Succeeded"
    assert ran(cluster, again) == ["plan"]
    assert spent_by(store, "person") == spent
    assert [row[0] for row in spent] == ["PERSON", "ann"]

    changed = cluster.submit(overrides="sft.learning_rate=1e-4")
    assert cluster.wait(changed)["status"]["phase"] == "Succeeded"
    after_sft = {"sft", "twin", "dpo", "reward-model", "rlhf", "compare"}
    evaluations = {f"evaluate-{stage}" for stage in ("sft", "twin", "dpo", "rlhf")}
    shown = {"show"} if cluster.profile.artifacts else set()
    assert set(ran(cluster, changed)) == {"plan", "finish"} | after_sft | evaluations | shown


def test_a_plan_that_refuses_ends_the_workflow(cluster: Cluster) -> None:
    name = cluster.submit(overrides="pretrain.tokens=-1")
    assert cluster.wait(name)["status"]["phase"] == "Failed"
    assert ran(cluster, name) == ["finish", "plan"]


def test_two_ranks_of_a_pod_make_the_bytes_of_two_ranks_on_a_laptop(cluster: Cluster, store: Path,
                                                                    tmp_path: Path) -> None:
    given = (*RANKS, "long_context=null", "anneal=null", "twin=false")
    name = cluster.submit(to="sft", overrides="\n".join(given))
    run(tmp_path / "laptop", "--to", "sft", *given)
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    assert differences(store, tmp_path / "laptop") == []
    for stage in ("pretrain", "sft"):
        [directory] = store.glob(f"{stage}-*")
        assert read_record(directory / RUN)["attempts"] == 1  # one pod, one lease
        assert not (directory / LEASE).exists()


def test_two_hundred_shards_run_in_batches(cluster: Cluster, store: Path, tmp_path: Path) -> None:
    name = cluster.submit(to="clean", overrides="clean.shards=200")
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    pods = [node for node in pod_nodes(cluster.get(name)) if node["displayName"].startswith("score(")]
    assert len(pods) == 200 // 8  # parts share a process
    run(tmp_path / "laptop", "--to", "clean", "clean.shards=200")
    assert differences(store, tmp_path / "laptop") == []


TREE = """\
posttraining:
  - {name: chat, method: sft, max_steps: 20}
  - {name: better, from: chat, method: best_of_n, rewards: {ended: 1.0}, n: 4}
  - {name: again, from: chat, method: sft, data: better, max_steps: 2, batch_size: 2}
  - {name: simple, from: chat, method: simpo, beta: 2.0, max_steps: 2}
  - {name: soup, method: ties, of: [chat, simple], base_of: pretrain}
"""
STUDENT = "pretrain.model.num_hidden_layers=1", "pretrain.teacher_share=0.7"
WITHOUT = "long_context=null", "anneal=null", "evaluate.suites={benchmark: final, probes: none, heldout: none}"
ITEMS = {"chat", "better", "again", "simple", "soup"}


def items(cluster: Cluster, name: str, phase: str) -> set[str]:
    """Items of the tree whose pods ended so."""
    found = (node for node in pod_nodes(cluster.get(name)) if ")." in node["name"] and node["phase"] == phase)
    return {node["name"].rpartition(").")[2].partition(":")[2].partition(")")[0] for node in found} & ITEMS


def test_a_tree_makes_the_bytes_of_the_laptop_and_a_branch_that_fails_leaves_the_others_running(
    cluster: Cluster, store: Path, tmp_path: Path) -> None:
    """The base is a smaller model, which learns from one that the store has already; one item is a merge."""
    file, laptop = tmp_path / "tree.yaml", tmp_path / "laptop"
    file.write_text(TREE)
    name = cluster.submit(to="pretrain")
    run(laptop, "--to", "pretrain")
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    [teacher] = laptop.glob("pretrain-*")
    ours = f"pretrain.teacher={cluster.profile.storage.root}/{teacher.name}"
    name = cluster.submit(config=TREE, overrides="\n".join((*WITHOUT, *STUDENT, ours)))
    run(laptop, "--config", str(file), *WITHOUT, *STUDENT, f"pretrain.teacher={teacher}")
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    assert differences(store, laptop) == []
    assert items(cluster, name, "Succeeded") == ITEMS
    assert len([*store.glob("evaluate-*")]) == len(ITEMS)  # one for each checkpoint
    broken = "posttraining.better.max_new_tokens=100000"  # more than the context: the step finds out
    name = cluster.submit(config=TREE, overrides="\n".join((*WITHOUT, broken, "seed=2")))
    assert cluster.wait(name)["status"]["phase"] == "Failed"
    assert items(cluster, name, "Succeeded") == {"chat", "simple", "soup"}  # the merge is of these two
    assert items(cluster, name, "Failed") == {"better"}


OWN_SUITE = """\
benchmarks:
  tasks: {mine: [mine.jsonl]}
  variants:
    plain:
    told:
      template: {prompt: "{options}\\nNow {question}\\nRight:", option: "({label}) {text}", answer: "({label})"}
"""
ONLY_PRETRAIN = ("stages=[clean, tokenizer, tokenize, pretrain, evaluate, compare]", "pretrain.exports=[1.0]",
                 "long_context=null", "anneal=null")


def test_a_form_of_ones_own_by_yaml_alone_is_asked_on_the_cluster(cluster: Cluster, store: Path) -> None:
    """The suite lies in the store; the form is in results, in what MLflow gets, and in the report."""
    (store / "suites").mkdir()
    (store / "suites/own.yaml").write_text(OWN_SUITE)
    write_items(store / "suites/mine.jsonl", make_items(12))
    suite = f"{cluster.profile.storage.root}/suites/own.yaml"
    name = cluster.submit(overrides="\n".join((*ONLY_PRETRAIN, f"evaluate.suites={{{suite}: final}}")))
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    [evaluation] = store.glob("evaluate-*")
    metrics = json.loads((evaluation / "results.json").read_text())["metrics"]
    assert {"bench/mine/told/acc", "bench/mine/plain/acc"} <= {*metrics}
    assert "bench/mine/told/acc" in (evaluation / "tracking/spool.jsonl").read_text()
    [page] = store.glob("compare-*/report.html")
    assert "told" in page.read_text()


NAME = "nightly-eval"
SMALL = "pretrain.exports=[1.0]\nevaluate.limit=4\nevaluate.suites={benchmark: final}"


def nights(cluster: Cluster) -> list[dict[str, Any]]:
    """Workflows that the schedule started, the first one first."""
    return cluster.workflows(f"workflows.argoproj.io/cron-workflow={NAME}")


def set_schedule(cluster: Cluster, *, suspend: bool) -> None:
    spec = {"schedules": ["* * * * *"], "suspend": suspend}
    cluster.custom().patch_namespaced_custom_object(
        GROUP, VERSION, cluster.namespace, "cronworkflows", NAME, {"spec": spec})


@pytest.fixture
def every_minute(cluster: Cluster) -> Iterator[None]:
    """The schedule fires each minute, and no night of an earlier test is there."""
    for night in nights(cluster):
        cluster.delete(night["metadata"]["name"])
    set_schedule(cluster, suspend=False)
    try:
        yield
    finally:
        set_schedule(cluster, suspend=True)


def ended(cluster: Cluster, number: int) -> dict[str, Any]:
    """The night `number` (from 0) once it has ended."""
    cluster.until(lambda: len(nights(cluster)) > number, f"night {number} to start")
    return cluster.wait(str(nights(cluster)[number]["metadata"]["name"]))


def templates(workflow: dict[str, Any]) -> set[str]:
    return {node["templateName"] for node in pod_nodes(workflow)}


def test_a_night_evaluates_the_one_new_checkpoint_and_the_next_one_does_nothing(
    cluster: Cluster, store: Path, request: pytest.FixtureRequest) -> None:
    trained = cluster.submit(to="pretrain", overrides=SMALL)
    assert cluster.wait(trained)["status"]["phase"] == "Succeeded"
    request.getfixturevalue("every_minute")

    first = ended(cluster, 0)
    assert first["status"]["phase"] == "Succeeded"
    assert templates(first) == {"plan", "step", "judge", "finish"} | ({"show"} if cluster.profile.artifacts else set())
    [evaluation] = store.glob("evaluate-*")
    assert read_done(evaluation)
    [judgement] = store.glob("regressions-*")
    [judged] = json.loads((judgement / "outputs.json").read_text())["outputs"]["judged"]
    assert judged["stage"] == "pretrain"

    before = (evaluation / "run.json").read_bytes()
    second = ended(cluster, 1)
    assert second["status"]["phase"] == "Succeeded"
    assert templates(second) == {"plan"}
    assert (evaluation / "run.json").read_bytes() == before
    assert len(list(store.glob("regressions-*"))) == 1


FOLLOWED = ("stages=[clean, tokenizer, tokenize, pretrain, evaluate]", "evaluate.suites={heldout: all}")


def test_exports_are_evaluated_while_their_stage_trains(cluster: Cluster, store: Path, tmp_path: Path) -> None:
    given = (*FOLLOWED, "pretrain.exports=[0.05, 0.1, 1.0]", "pretrain.tokens=819200")
    name = cluster.submit(overrides="\n".join((*given, "evaluate.follow=true")))
    ended = cluster.wait(name)
    assert ended["status"]["phase"] == "Succeeded"
    pods = [*pod_nodes(ended)]
    [pretrain] = [node for node in pods if node["displayName"].startswith("pretrain(")]
    early = [node for node in pods if ".follow." in node["name"] and node["displayName"].startswith("evaluate(")]
    assert [node["finishedAt"] < pretrain["finishedAt"] for node in early] == [True, True]
    run(tmp_path / "laptop", *given)
    assert differences(store, tmp_path / "laptop") == []


def test_nobody_waits_for_the_exports_of_a_stage_that_failed(cluster: Cluster, store: Path) -> None:
    given = (*FOLLOWED, "evaluate.follow=true", "pretrain.exports=[0.9, 1.0]", "pretrain.learning_rate=1e6",
             "pretrain.watch={spike: stop, nonfinite: stop}")
    name = cluster.submit(overrides="\n".join(given))
    assert cluster.wait(name)["status"]["phase"] == "Failed"
    assert "over" in ran(cluster, name)
