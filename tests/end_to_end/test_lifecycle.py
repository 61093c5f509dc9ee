"""The whole life of a (tiny) model: what it leaves, that nothing runs twice, and that `kill -9` changes no byte."""

import json
import random
from pathlib import Path

import pytest

from argosy.store.step_files import read_outputs
from tests.end_to_end.crash import Crasher, run
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


def test_the_report_and_the_comparison_are_there(store: Path) -> None:
    compare = Path(planned(store).nodes[-1].dir)
    assert "</html>" in (compare / "report.html").read_text(encoding="utf-8")
    comparison = json.loads((compare / "comparison.json").read_text())
    assert {"sft", "twin", "dpo", "rlhf"} <= {checkpoint["stage"] for checkpoint in comparison["checkpoints"].values()}


def test_every_checkpoint_loads_and_generates(store: Path) -> None:
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


def test_run_again_it_runs_nothing(store: Path) -> None:
    attempts = {path: path.read_bytes() for path in store.glob("*/run.json")}
    assert f"0 to run, {len(attempts)} done already" in run(store)
    assert {path: path.read_bytes() for path in store.glob("*/run.json")} == attempts


def test_killed_at_random_moments_it_ends_in_the_same_bytes(store: Path, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # shown when the test fails
    killed = list(Crasher(tmp_path / "killed", store, random.Random(seed), last="sft").kills(3))
    print(*killed, sep="\n")
    assert killed
    assert differences(tmp_path / "killed", store) == []
