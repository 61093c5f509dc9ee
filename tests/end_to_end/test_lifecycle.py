"""The whole life of a (tiny) model: what it leaves, that nothing runs twice, and that `kill -9` changes no byte."""

import json
import random
import re
import runpy
import shutil
from pathlib import Path

import pytest

from argosy.core.store.step_files import read_done, read_outputs
from tests.command_line import Argosy
from tests.end_to_end.crash import kills, run
from tests.html_tags import check_self_contained
from tests.store_comparison import differences
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.plan import Plan, plan


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In which every stage has run."""
    path = tmp_path_factory.mktemp("lifecycle") / "store"
    run(path)
    return path


def planned(store: Path, *overrides: str) -> Plan:
    return plan(lifecycle(compose("tiny", overrides=overrides)), store)


def test_every_checkpoint_loads_and_generates_and_is_compared(store: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

    seen = set()
    for node in planned(store).nodes:
        for export in read_outputs(node.dir).get("exports", []):
            path = Path(node.dir, export["path"])
            inputs = AutoTokenizer.from_pretrained(path)("The capital of 法国", return_tensors="pt")
            if node.name == "reward_model":
                assert AutoModelForSequenceClassification.from_pretrained(path)(**inputs).logits.shape == (1, 1)
            else:
                model = AutoModelForCausalLM.from_pretrained(path)
                made = model.generate(**inputs, min_new_tokens=4, max_new_tokens=4, do_sample=False)
                assert made.shape[1] == inputs["input_ids"].shape[1] + 4
            seen.add((node.name, export["name"]))
    assert {"pretrain", "long_context", "anneal", "sft", "twin", "reward_model", "dpo", "rlhf"} == {n for n, _ in seen}
    assert len(seen) == 9  # pretraining has two
    compare = Path(planned(store).nodes[-1].dir)
    assert "</html>" in (compare / "report.html").read_text(encoding="utf-8")
    comparison = json.loads((compare / "comparison.json").read_text())
    assert {"sft", "twin", "dpo", "rlhf"} <= {each["stage"] for each in comparison["checkpoints"].values()}


def test_every_file_that_a_step_leaves_is_documented(store: Path) -> None:
    is_named = runpy.run_path(str(Path(__file__).parents[2] / "docs/files.py"))["is_named"]
    done = {node.step: read_done(node.dir) or {} for node in planned(store).nodes}
    unknown = [f"{step}: {path}" for step, record in done.items() for path in record["files"]
               if not is_named(step, path, model="exports" in record["outputs"])]
    assert not unknown, f"docs/files.yaml lacks {unknown}"


def test_run_again_it_runs_nothing(store: Path) -> None:
    attempts = {path: path.read_bytes() for path in store.glob("*/run.json")}
    assert f"0 to run, {len(attempts)} done already" in run(store)
    assert {path: path.read_bytes() for path in store.glob("*/run.json")} == attempts


def test_a_sweep_shares_the_stages_before_it_and_costs_its_new_points_alone(
    store: Path, tmp_path: Path, argosy: Argosy, no_mlflow: None, warm: None) -> None:
    for name in ("data", "clean", "tokenizer", "tokenize"):
        [directory] = store.glob(f"{name}-*")
        shutil.copytree(directory, tmp_path / directory.name)
    short = ["pretrain.tokens=1024", "pretrain.heldout_points=1", "pretrain.heldout_tokens=200"]
    grid = ["sweep", "--preset", "tiny", "--store", str(tmp_path), "pretrain.weight_decay=0.1,0.01", *short]
    ran = argosy(*grid, "pretrain.learning_rate=1e-3,1e-2", "--cores", "1", "--json")
    found = json.loads(ran.out)
    assert "4 points (2 of pretrain.weight_decay x 2 of pretrain.learning_rate): 4 to run, 0 reused" in ran.err
    assert len(found["settings"]) == 4
    assert found["settings"][0]["verdict"] == "best"
    of_point = {each["name"]: each["bpb"] for each in found["points"]}
    for directory in tmp_path.glob("pretrain-*"):
        heldout = read_outputs(directory)["heldout"]
        assert of_point[directory.name.split("-", 1)[1].rpartition("-")[0]] == pytest.approx(
            {channel: each["bpb"] for channel, each in heldout.items()}, rel=1e-5)
    assert "is at the grid's edge, the " in json.dumps(found["sentences"])
    [report] = tmp_path.glob("sweep-*/report.html")
    assert {"verdict", "charts"} <= check_self_contained(report.read_text(encoding="utf-8"))
    more = argosy(*grid, "pretrain.learning_rate=1e-3,3e-3,1e-2", "--seeds", "2", "--dry-run").out
    assert "12 points" in more
    assert "8 to run, 4 reused" in more
    assert not list(tmp_path.glob("last_run.json"))  # argosy status goes on telling of the lifecycle


def test_merged_and_quantized_copies_are_evaluated_and_compared_and_one_exported_with_a_card(
    store: Path, tmp_path: Path, argosy: Argosy, no_mlflow: None, warm: None) -> None:
    shutil.copytree(store, tmp_path / "store")
    added = ["merge={of: [pretrain/p050, pretrain]}", "quantize={method: awq, of: anneal}",
             "export={of: quantize, licence: mit}"]
    argosy("run", "--preset", "tiny", "--store", str(tmp_path / "store"), "--cores", "1", *added)
    nodes = {node.name: Path(node.dir) for node in planned(tmp_path / "store", *added).nodes}
    sizes = read_outputs(nodes["quantize"])
    assert sizes["bytes"] < sizes["bytes_before"]
    comparison = json.loads((nodes["compare"] / "comparison.json").read_text())
    assert {(each["first"], each["verdict"]) for each in comparison["heldout"] if each["second"] == "quantize"} <= {
        ("anneal", "same"), ("anneal", "cannot tell")}
    measured = {name: each["metrics"] for name, each in comparison["checkpoints"].items()}
    assert measured["quantize"].keys() == measured["anneal"].keys()
    assert measured["merge"].keys() == measured["pretrain"].keys()
    page = (nodes["compare"] / "report.html").read_text(encoding="utf-8")
    assert "<small>unparsable</small>" in page
    assert "<small>chance</small>" not in page  # which the evaluations have
    for name in ("size/after_mb", "memory/weights_after_mb", "perf/decoding_after"):
        assert f"<td>{name}</td>" in page
    card = (nodes["export"] / "hub/README.md").read_text(encoding="utf-8")
    assert re.search(r"^license: mit$", card, re.MULTILINE)
    assert re.search(r"^\| code \| 23 of 23 \| [\d,]+ \| PSF-2.0 \(23\) \|", card, re.MULTILINE)
    [bits] = re.findall(r"^\| bits per byte of code \| (\S+) \| \S+ to \S+ \| 8 documents \|", card, re.MULTILINE)
    assert float(bits) == pytest.approx(measured["quantize"]["heldout/bpb/code"]["value"], abs=1e-3)
    stages = re.findall(r"^\| (\w+) \| [\d,]+ \| [^|]+ \|$", card, re.MULTILINE)
    assert stages == ["quantize", "anneal", "long_context", "pretrain"]


def test_killed_at_random_moments_it_ends_in_the_same_bytes(store: Path, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # shown when the test fails
    killed = list(kills(tmp_path / "killed", store, 3, random.Random(seed), "sft"))
    print(*killed, sep="\n")
    assert killed
    assert differences(tmp_path / "killed", store) == []
