"""Two chat models of which one was asked in its chat template and the other not: `argosy compare` says so."""

from pathlib import Path

import pytest

from tests.command_line import Argosy
from tests.comparison_fixtures import node

BENCH = {"bench/facts/plain/acc": 0.5, "bench/science/plain/acc": 0.4}
OTHERS = {"probe/probes/refusal/acc": 0.6, "heldout/bpb/en": 1.2}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _model(name: str, *evaluations: tuple[str, str, dict[str, float]], chat: bool = True) -> str:
    """A stage of the store `runs` with evaluations (--chat, suite, metrics), the newest last; its directory."""
    export = {"name": "final", "path": "checkpoints/final", "step": 1, "tokens": 10}
    made = node(Path("runs"), name, name, {}, {"exports": [export], "final": "checkpoints/final"})
    (made / "checkpoints/final").mkdir(parents=True)
    for ended, (asked, suite, metrics) in enumerate(evaluations):
        outputs = {"checkpoint": {"stage": name, "name": "final", "step": 1, "tokens": 10, "chat": chat},
                   "metrics": metrics, "stderr": dict.fromkeys(metrics, 0.02), "counts": dict.fromkeys(metrics, 400)}
        node(Path("runs"), "evaluate", "evaluate", {"chat": asked, "suite": suite}, outputs,
             upstream={"checkpoint": [made.name.rpartition("-")[2]]},
             run={"ended": 1.0 + ended, "config": {"suite_file": f"/any/evals/suites/{suite}.yaml"}})
    return str(made)


def _notes(argosy: Argosy, *names: str) -> list[str]:
    return [line for line in argosy("compare", *names).out.splitlines() if "template" in line]


def test_the_one_that_was_asked_without_is_named_with_what_to_type(argosy: Argosy) -> None:
    sft = _model("sft", ("auto", "core", BENCH), ("auto", "probes", OTHERS))
    dpo = _model("dpo", ("auto", "probes", OTHERS), ("off", "core", BENCH))
    said = ("Note: sft was asked in its chat template and dpo without one, although both are chat models: a difference "
            f"may be the template's. 'argosy evaluate {dpo} --chat auto' asks dpo in it too.")  # fmt: skip
    assert _notes(argosy, sft, dpo) == _notes(argosy, dpo, sft) == [said]


@pytest.mark.parametrize(("asked", "metrics", "chat"), [
    ("off", BENCH, False), ("on", BENCH, True), ("off", {"heldout/bpb/en": 1.2}, True)])
def test_otherwise_there_is_no_note(asked: str, metrics: dict[str, float], chat: bool, argosy: Argosy) -> None:
    """A base model, models that were asked alike, and held-out text, which is asked in none."""
    first, second = _model("first", (asked, "core", metrics), chat=chat), _model("sft", ("auto", "core", BENCH))
    assert _notes(argosy, first, second) == []
