"""A gate does not hold on evidence that is missing, lost, too little, or that could not have decided."""

from pathlib import Path
from typing import Any

import pytest

from argosy.evidence.gate.check import Verdict
from argosy.evidence.gate.subject import read_subject
from tests.comparison_fixtures import abilities, answers, judged, node, subject

SAME = answers(abilities(2000, 0.6, 1), 1)
DOCUMENTS = [300.0 + 3 * n for n in range(100)]


def said(found: Verdict) -> str:
    return "; ".join(f.evidence for judgement in found.judgements for f in judgement.findings)


@pytest.mark.parametrize("beyond", ["noise", 0.5])
def test_one_document_or_few_of_many_decide_nothing(beyond: str | float) -> None:
    rules = [{"no_channel_worse": {"beyond": beyond}}]
    one = judged(rules, subject("b", SAME, losses={"zh": [3000.0]}), subject("a", SAME, losses={"zh": [300.0]}))
    assert one.status == "cannot tell"
    assert "from one item, document or passage" in said(one)
    few = judged(rules, subject("b", SAME, losses={"zh": DOCUMENTS[:5]}), subject("a", SAME, losses={"zh": DOCUMENTS}))
    assert few.status == "cannot tell"
    assert "both have 5 of 100" in said(few)
    nearly = subject("b", SAME, losses={"zh": DOCUMENTS[:98]})
    assert judged(rules, nearly, subject("a", SAME, losses={"zh": DOCUMENTS})).holds


def test_few_of_the_items_decide_nothing_whichever_way_and_are_named_with_their_suite(tmp_path: Path) -> None:
    full, few = subject("a", SAME), subject("toy", SAME[:30])
    directory = node(tmp_path, "evaluate", "evaluate", {"suite": "core", "limit": 30},
                     {"suite": "core", "metrics": few.checkpoint.metrics})
    few.checkpoint.evaluations.append(directory)
    for new, reference in ((full, few), (few, full)):
        found = judged(["not_worse"], new, reference)
        assert found.status == "cannot tell"
        assert "both have 30 of 2000" in said(found)
        assert said(found).endswith(f"; toy has 30, by the suite core with limit 30 ({directory.name})")
    assert judged(["better_on"], subject("b", [True] * 30), full).status == "cannot tell"


def test_a_test_that_cannot_reach_the_level_decides_nothing() -> None:
    """200 items of 4 passages: sign flips cannot go below 2 / 2^4, even where all that was right is wrong."""
    right, wrong = ([value] * 200 for value in (True, False))
    found = judged(["not_worse"], subject("b", wrong, cluster=50), subject("a", right, cluster=50))
    assert found.status == "cannot tell"
    assert "p cannot be below 0.12" in said(found)
    assert judged(["not_worse"], subject("b", wrong, cluster=25), subject("a", right, cluster=25)).status == "fails"
    alike = judged(["not_worse"], subject("b", right, cluster=25), subject("a", right, cluster=25))
    assert alike.holds  # 2 / 2^8 is below 0.05, and not below 0.05 / 8 of eight tests:
    eight = [{"not_worse": {"on": ["bench/facts/plain/acc"]}}] * 8
    assert judged(eight, subject("b", right, cluster=25), subject("a", right, cluster=25)).status == "cannot tell"
    assert judged(["not_worse"], subject("b", right[:3]), subject("a", right[:3])).status == "cannot tell"


def test_a_pattern_is_of_what_the_reference_has_and_of_what_failed() -> None:
    rule = [{"at_least": {"bench/*/plain/acc": 0.1}}]
    a, b = subject("a", SAME), subject("b", SAME)
    assert judged(rule, b, a).holds
    a.checkpoint.metrics["bench/other/plain/acc"] = 0.5
    found = judged(rule, b, a)
    assert found.status == "cannot tell"
    assert "bench/other/plain/acc is not measured for b" in said(found)
    b.failed = {"bench/third": "no such file"}
    assert "bench/third failed for b: no such file" in said(judged(rule, b))
    b.failed = {"bench/facts/permuted": "no examples", "probe/probes/x": "no such file"}
    assert judged(rule, b).holds  # not what the pattern is of


def evaluation(root: Path, metric: str, **more: Any) -> Path:
    about = {"stage": "sft", "name": "final", "step": 1, "tokens": 1, "chat": False}
    outputs = {"checkpoint": about, "suite": "mine", "metrics": {metric: 0.5}, "stderr": {}, "counts": {},
               "headline": {}, **more}  # fmt: skip
    return node(root, "evaluate", "evaluate", {"of": metric}, outputs, upstream={"checkpoint": ["abc"]})


def test_what_failed_and_what_is_no_number_is_read_until_it_is_measured(tmp_path: Path) -> None:
    lost = {"heldout/zh": {"loss is not a number": 95, "too long": 3}, "heldout/en": {"too long": 3}}
    first = evaluation(tmp_path, "heldout/bpb/zh", failed={"bench/facts": "no file"}, left_out=lost)
    later = evaluation(tmp_path, "bench/facts/plain/acc")
    found = read_subject([first], "sft")
    assert (dict(found.failed), dict(found.lost)) == ({"bench/facts": "no file"}, {"heldout/zh": 95})
    assert any("bench/facts failed: no file" in note for note in found.notes)
    assert dict(read_subject([first, later], "sft").failed) == {}

    a, b = (subject(label, SAME, losses={"zh": DOCUMENTS[:5]}) for label in "ab")
    assert judged(["no_channel_worse"], b, a).holds
    a.lost = b.lost = found.lost  # both lost the same documents
    assert "both have 5 of 100" in said(judged(["no_channel_worse"], b, a))
