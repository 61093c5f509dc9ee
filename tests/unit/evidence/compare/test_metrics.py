"""The kind of every metric is declared by its maker; a metric that nobody declares has no direction."""


import pytest

from argosy.core.statistics.metric import Metric, as_records, from_records, probability, share
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.comparison import compare
from argosy.evidence.compare.entries import Entry
from argosy.evidence.compare.metrics import UNDECLARED, kind_of, known
from argosy.evidence.gate.check import check
from argosy.evidence.gate.config import Gate
from argosy.evidence.gate.subject import Subject
from argosy.evidence.judging.metrics import Verdict, metrics


@pytest.mark.parametrize(
    ("name", "better", "share"),
    [
        ("probe/generation/open/length", 0, False),
        ("judge/first/loop", -1, True), ("judge/second/loop", 0, True), ("judge/win_rate", 1, True),
        ("judge/losses", -1, True), ("judge/position_bias", 0, False), ("judge/longer_wins", 0, True),
        ("memorisation/exact/all", -1, True), ("memorisation/exact_heldout/all", 0, True),
        ("memorisation/exact_gap/all", -1, False), ("memorisation/matched/all", -1, False),
        ("memorisation/auc_min_k_plus/all", -1, False), ("memorisation/matched_heldout/all", 0, False),
        ("bench/t/headline/acc", 1, True), ("bench/t/plain/acc", 0, False), ("probe/probes/json/prob", 0, False),
        ("my/own/thing", 0, False), ("heldout/bpb/code", -1, False), ("heldout/exact_match", 1, True),
        ("train/loss", -1, False),
    ],
)  # fmt: skip
def test_what_no_results_declare_is_as_its_makers_table_says(name: str, better: int, share: bool) -> None:
    assert (kind_of(name).sign, kind_of(name).share) == (better, share)


def test_results_say_of_their_own_metrics_what_a_name_does_not() -> None:
    declared = {"bench/t/plain/my_score": share("lower"), "bench/t/plain/acc": probability("neither")}
    read = from_records(as_records(declared))
    assert read == declared
    assert (kind_of("bench/t/plain/my_score", read).sign, kind_of("bench/t/plain/my_score", read).share) == (-1, True)
    found = kind_of("bench/t/plain/acc", read)
    assert (found.sign, found.probability) == (0, True)
    assert from_records([{"better": "lower", "metrics": ["a"], "of a newer version": 1}]) == {"a": Metric("lower")}


@pytest.mark.parametrize("name", ["bench/t/plain/my_score", "bench/t/plain/likely", "probe/s/x/my_measure", "my/thing"])
def test_what_nobody_declares_is_shown_and_decides_nothing(name: str) -> None:
    assert known(name) is None
    first, second = (Checkpoint(label, label, "s", label, 1, 1, label=label, metrics={name: value}, stderr={name: 0.01})
                     for label, value in (("a", 0.2), ("b", 0.9)))
    found = compare([Entry(c.label, c.label, [c], c) for c in (first, second)])
    (contrast,) = found.pairs[0].contrasts
    assert (contrast.verdict, contrast.how, contrast.difference.value) == ("untested", UNDECLARED, pytest.approx(0.7))
    assert any(f"Nothing declares which way is better for {name}" in note for note in found.notes)
    gate = Gate.model_validate({"rules": [{"not_worse": {"on": [name]}}]})
    (finding,) = check(gate, Subject(second), Subject(first)).judgements[0].findings
    assert finding.status == "cannot tell"
    assert UNDECLARED in finding.evidence


def test_every_metric_of_a_judge_is_declared() -> None:
    verdicts = [Verdict(str(n), 0.9 if n % 3 else 0.2, 0.8 if n % 2 else 0.4, (n, 9 - n)) for n in range(10)]
    found = metrics(verdicts, {str(n): "first" for n in range(10)})
    assert {"win_rate", "losses", "agreement"} <= found.keys()
    assert all(known(f"judge/{measure}") for measure in found)
