"""Two chat models of which one was asked in its chat template and the other not: `argosy compare` says so."""

from pathlib import Path
from typing import Any

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
    dpo = _model("dpo", ("off", "core", BENCH), ("auto", "probes", OTHERS))
    said = ("Note: facts and science: {} was asked in its chat template and {} without one, although both are chat "
            "models: a difference may be the template's. 'argosy evaluate {} --suite core --chat auto', with the other "
            "options as they were, asks {} in it too.")  # fmt: skip
    assert _notes(argosy, sft, dpo) == [said.format("sft", "dpo", dpo, "dpo")]
    assert _notes(argosy, dpo, sft) == [said.format("sft", "dpo", dpo, "dpo")]


def test_the_newest_evaluation_counts_and_what_it_hides_is_told(argosy: Argosy) -> None:
    first = _model("sft", ("on", "probes", OTHERS))
    second = _model("dpo", ("auto", "probes", OTHERS), ("off", "probes", OTHERS))
    [note] = _notes(argosy, first, second)
    assert note.startswith("Note: probes (of probes: those that ask in a template): sft was asked in its chat template")
    assert "held-out" not in note
    hiding = [path.name for path in Path("runs").glob("evaluate-*") if '"off"' in (path / "outputs.json").read_text()]
    assert note.endswith(f"an older evaluation did: without {hiding[0]} in the store, it counts again.")
    third = _model("rlhf", ("off", "probes", OTHERS), ("auto", "probes", OTHERS))
    assert _notes(argosy, first, third) == []


ALL = {**BENCH, **OTHERS}
HELD = {"heldout/bpb/en": 1.2}


@pytest.mark.parametrize(("first", "chat", "second"), [
    *(([(asked, "core", ALL)], chat, [("auto", "core", ALL)])  # a base model, and models that were asked alike
      for chat, asked in ((False, "auto"), (False, "off"), (True, "auto"), (True, "on"))),
    # A base model that was asked in a template is no chat model.
    ([("on", "core", BENCH), ("auto", "probes", OTHERS)], False, [("off", "core", BENCH), ("auto", "probes", OTHERS)]),
    ([("auto", "held", HELD)], True, [("off", "held", HELD)]),  # held-out text alone is asked in none
])  # fmt: skip
def test_otherwise_there_is_no_note(first: list[Any], chat: bool, second: list[Any], argosy: Argosy) -> None:
    assert _notes(argosy, _model("first", *first, chat=chat), _model("sft", *second)) == []
