"""Each rule: what holds, what fails, what cannot be told; and a gate's file with mistakes in it."""

from pathlib import Path

import numpy as np
import pytest

from argosy.core.errors import InputError
from argosy.evidence.gate.check import Verdict, check, lines, summary
from argosy.evidence.gate.config import Gate, read_gate
from argosy.evidence.gate.subject import nobody
from tests.comparison_fixtures import abilities, answers, judged, subject

CHANCES = abilities(400, 0.6, 1)
SAME = answers(CHANCES, 1)


def losses(bits: float, seed: int = 0) -> list[float]:
    hard, own = np.random.default_rng(7), np.random.default_rng(seed)
    return (500 * np.log(2) * (bits + hard.normal(0, 0.3, 40) + own.normal(0, 0.01, 40))).tolist()


def findings(verdict: Verdict) -> dict[str, str]:
    return {f.about: f.status for judgement in verdict.judgements for f in judgement.findings}


def test_channels_beyond_noise_and_beyond_a_margin() -> None:
    reference = subject("a", SAME, losses={"code": losses(1.0), "zh": losses(1.5)})
    new = subject("b", SAME, losses={"code": losses(1.05, 1), "zh": losses(1.5, 2)})
    found = judged(["no_channel_worse"], new, reference)
    assert findings(found) == {"heldout/bpb/code": "fails", "heldout/bpb/zh": "holds"}
    assert summary(found) == "does not hold (fails: no_channel_worse)"
    said = "\n".join(lines(found))
    assert "heldout/bpb/code 0.88" in said
    assert "is found in 80 of 100" in said  # what a test that finds nothing does not exclude
    assert judged([{"no_channel_worse": {"channels": ["zh"]}}], new, reference).holds
    assert judged([{"no_channel_worse": {"beyond": 0.1}}], new, reference).holds  # worse, and less than is allowed
    assert findings(judged([{"no_channel_worse": {"beyond": 0.02}}], new, reference))["heldout/bpb/code"] == "fails"
    near = findings(judged([{"no_channel_worse": {"beyond": 0.048}}], new, reference))
    assert near["heldout/bpb/code"] == "cannot tell"
    assert judged(["no_channel_worse"], reference, new).holds


@pytest.mark.parametrize("cluster", [1, 4])
def test_identical_models_are_called_different_in_at_most_5_of_100(cluster: int) -> None:
    """1,000 comparisons of a model with itself under another seed: half of single items, half of passages with four."""
    chances, gate = abilities(120, 0.6, 1, cluster=cluster), Gate.model_validate({"rules": ["not_worse"]})
    called = failed = 0
    for run in range(500):
        a, b = (subject(str(side), answers(chances, 2 * run + side, cluster=cluster), cluster=cluster)
                for side in (0, 1))
        [found] = check(gate, b, a).judgements
        called += any((f.p_adjusted or 1.0) < gate.alpha for f in found.findings)
        failed += found.status == "fails"
    assert called <= 25
    assert failed <= 17  # worse is one of two ways to differ


def test_the_gate_of_the_docs_can_be_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[4] / "docs/gate.md").read_text(encoding="utf-8")
    block = text[text.index("    # gate.yaml") : text.index("Each rule **holds**")]
    file = tmp_path / "gate.yaml"
    file.write_text("\n".join(line[4:] for line in block.splitlines()), encoding="utf-8")
    gate = read_gate(file)
    assert [rule.name for rule in gate.parsed] == ["no_channel_worse", "not_worse", "better_on", "at_least", "at_most",
                                                   "contamination"]


def test_a_headline_that_falls_fails_and_one_that_rises_does_not() -> None:
    low, high = (subject(name, answers(abilities(800, accuracy, 1), seed)) for name, accuracy, seed in
                 (("low", 0.5, 1), ("high", 0.62, 2)))  # fmt: skip
    assert findings(judged(["not_worse"], low, high)) == {"bench/facts/headline/acc": "fails"}
    assert judged(["not_worse", "better_on"], high, low).holds
    assert judged(["better_on"], low, high).status == "fails"
    one_of = [{"better_on": {"on": ["bench/facts/*/acc"], "least": 1}}]
    assert judged(one_of, high, low).holds
    assert judged(one_of, subject("c", answers(abilities(800, 0.5, 1), 3)), low).status == "fails"


def test_without_a_reference_nothing_is_worse_and_nothing_is_better() -> None:
    new = subject("a", SAME, losses={"code": losses(1.0)})
    assert judged(["no_channel_worse", "not_worse"], new).holds
    assert judged(["better_on"], new).status == "cannot tell"


def test_evidence_that_is_missing_does_not_hold_and_says_what_to_evaluate() -> None:
    full, bare = subject("a", SAME, losses={"code": losses(1.0)}), nobody("b", "b/final")
    for rule in ("no_channel_worse", "not_worse", "better_on", "contamination"):
        for new, reference in ((bare, full), (full, bare)):
            found = judged([rule], new, reference)
            if rule == "contamination" and new is full:
                continue
            assert found.status == "cannot tell", rule
            assert "evaluate" in "\n".join(lines(found))
    found = judged([{"at_least": {"bench/facts/cloze/acc": 0.3, "bench/facts/plain/acc": 0.3}}], full)
    assert findings(found) == {"bench/facts/cloze/acc": "cannot tell", "bench/facts/plain/acc": "holds"}


def test_thresholds_by_value_and_by_interval() -> None:
    new = subject("a", SAME)
    value = new.checkpoint.metrics["bench/facts/plain/acc"]
    name = "bench/facts/plain/acc"
    assert judged([{"at_least": {name: value}}], new).holds
    assert judged([{"at_most": {name: value}}], new).holds
    assert judged([{"at_least": {name: value + 0.001}}], new).status == "fails"
    assert judged([{"at_most": {name: value - 0.001}}], new).status == "fails"
    sure = {"value": value - 0.01, "certain": True}
    assert judged([{"at_least": {name: sure}}], new).status == "cannot tell"
    assert judged([{"at_least": {name: {**sure, "value": value - 0.1}}}], new).holds
    assert judged([{"at_least": {"bench/*/headline/acc": value - 0.1}}], new).holds


@pytest.mark.parametrize(("text", "words"), [
    ("rules:\n  - no_chanel_worse:\n", ["gate.yaml, line 2", "; did you mean 'no_channel_worse'?"]),
    ("rules:\n  - contamination: {below: 2}\n", ["contamination", "below", "2"]),
    ("rules:\n  - not_worse: {beyond: .inf}\n", ["not_worse: beyond is Infinity, allowed: 'noise', or a finite"]),
    ("alpha: .nan\nrules: [not_worse]\n", ["gate.yaml, line 1: alpha is NaN, allowed: a finite number"]),
    ("rules:\n  - at_least: {a/b: much}\n",
     ["gate.yaml, line 2: rules.0: at_least: a/b is 'much', allowed: a number, or {value: NUMBER, certain: true}"]),
    ("rules:\n  - at_most: {a/b: .nan}\n", ["at_most: a/b is NaN, allowed: a finite number, or {value"]),
    ("rules:\n  - at_most: {a/b: true}\n", ["at_most: a/b is true, allowed: a number, or {value"]),
    ("rules:\n  - at_most: {a/b: {value: .inf}}\n",
     ["at_most: a/b: value is Infinity, allowed: a finite number"]),
    ("rules:\n  - at_most: 3\n", ["at_most: it is 3, allowed: metrics with a bound each"]),
    ("rules:\n  - at_most\n", ["at_most: it is without a metric, allowed: metrics with a bound each"]),
    ("", ["gate.yaml is empty, allowed: 'rules:' and below it a list of rules"]),
    ("alpha: 0.1\n", ["gate.yaml has no rules, allowed: 'rules:'"]),
    ("rules:\n  - {not_worse: null, better_on: null}\n", ["one rule's name"]),
    ("rules: 3\n", ["rules is 3"])])
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        read_gate(path)
    for word in words:
        assert word in str(raised.value)
