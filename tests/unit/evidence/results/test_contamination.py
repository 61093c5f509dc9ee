"""The contamination score in words, and as metrics of a LoggedModel and back."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from argosy.core.statistics.contamination import Contamination
from argosy.evidence.gate.subject import Subject
from argosy.evidence.results.contamination import Seen, contamination_metrics, seen_of
from argosy.evidence.results.rows import Rows
from tests.comparison_fixtures import checkpoint, judged
from tests.evaluation_fixtures import ask_benchmarks, make_language_model
from tests.lm_eval_fixtures import write_task
from tests.unit.evidence.gate.test_gate_contamination import rows

SCORE = Contamination("text_order", 0.02, -0.1, 0.14, 0.4, 0.7, 0.06, 296, ())


@pytest.mark.parametrize(("changed", "words"), [
    ({}, "not seen"),
    ({"probability": 0.5}, "likely"),
    ({"score": 0.9, "low": 0.8, "high": 1.0, "p_value": 1e-9, "probability": 0.83}, "likely"),
    ({"high": 0.31, "items": 40}, "cannot tell (40 items leave a score of up to +0.31 possible; more would tell)"),
    ({"p_value": 0.03}, "cannot tell (a weak trace (p 0.03); more items, or a clean reference, would tell)"),
    ({"probability": math.nan}, "cannot tell (the calibration says nothing of contaminated models)")])  # fmt: skip
def test_words(changed: dict[str, float], words: str) -> None:
    seen = Seen("facts", replace(SCORE, **changed))  # type: ignore[arg-type]
    assert seen.verdict + (f" ({seen.why})" if seen.why else "") == words


def test_a_benchmark_without_measures_cannot_be_told() -> None:
    plain = [row for row in rows(1) if row["variant"] == "plain"]
    assert contamination_metrics(plain) == {}
    seen = seen_of(Rows(plain))["facts"]
    assert seen.verdict == "cannot tell"
    assert seen.why.startswith("has neither memorisation nor a plain and a permuted form: evaluate it with")


TRUTHFUL = "Type,Category,Question,Best Answer,Correct Answers,Incorrect Answers\n"


@pytest.mark.usefixtures("own_tasks_alone")
@pytest.mark.parametrize("form", ["file", "lm_eval"])
def test_options_without_a_published_order_cannot_be_told(tmp_path: Path, form: str) -> None:
    """TruthfulQA has the right answer first, so nobody has seen ours; who knows the answers is right in any order."""
    if form == "file":
        lines = (f"a,b,Q{n}?,right {n},right {n},wrong {n}; bad {n}; false {n}\n" for n in range(120))
        (tmp_path / "TruthfulQA.csv").write_text(TRUTHFUL + "".join(lines))
        task: dict[str, Any] = {"files": "TruthfulQA.csv", "format": "truthfulqa_mc1"}
    else:
        items = [{"q": f"Q{n}", "c": [f"right {n}", f"wrong {n}", f"bad {n}", f"false {n}"]} for n in range(120)]
        write_task(tmp_path, "firsts", items, doc_to_target=0)
        task = {"lm_eval": "firsts", "include_path": str(tmp_path)}
    variants = {"plain": None, "permuted": {"permuted": {"k": 2}}}
    section = {"tasks": {"t": task}, "variants": variants, "memorisation": {"k": 3}}
    found = ask_benchmarks(make_language_model(positions=1024), tmp_path, section)
    by_heart = Rows({**row, "correct": True} for row in found.rows)
    seen = seen_of(by_heart)["t"]
    assert (seen.verdict, seen.why) == ("cannot tell", "its options have no published order")
    assert found.left_out["bench/t/memorisation"] == {"its options have no published order": 120}
    assert sum(bool(row.get("mixed")) for row in found.rows) == 360
    named = judged([{"contamination": {"tasks": ["t"]}}], Subject(checkpoint("m", by_heart)))
    assert [f.evidence for _, f in named.having("cannot tell")] == ["t: its options have no published order"]
