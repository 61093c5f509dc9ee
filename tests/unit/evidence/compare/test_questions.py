"""Only questions asked in the same way are paired, of all that has metrics: a task, a category, lm-eval's groups."""

from pathlib import Path

import pytest

from argosy.core.statistics.decisions import TABLE
from argosy.evidence.compare.changes import form_changes, not_shared
from argosy.evidence.compare.comparison import compare
from argosy.evidence.compare.entries import Entry
from argosy.evidence.compare.test import OTHER_QUESTIONS
from argosy.evidence.gate.subject import Subject
from argosy.evidence.results.findings import Findings
from argosy.model.infer.model import LanguageModel
from tests.comparison_fixtures import entry, judged
from tests.evaluation_fixtures import ask_benchmarks, make_items, make_language_model, write_items

pytestmark = pytest.mark.usefixtures("own_tasks_alone")


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return make_language_model(positions=1024)


def _entry(label: str, found: Findings) -> Entry:
    return entry(label, found.rows, metrics=found.metrics, stderr=found.stderr, counts=found.counts,
                 headline=found.headline, kinds=found.kinds)


def _digests(found: Findings) -> dict[tuple[str, str, str], str]:
    return {(row["task"], row["variant"], row["id"]): row["asked"] for row in found.rows}


def test_a_suite_with_other_examples_asks_other_questions(model: LanguageModel, tmp_path: Path) -> None:
    write_items(tmp_path / "x.jsonl", make_items(60))
    none, five = (ask_benchmarks(model, tmp_path, {
        "tasks": {"x": ["x.jsonl"]}, "variants": {"plain": {"few_shot": {"n": n}}}}) for n in (0, 5))
    result = compare([_entry("a", none), _entry("b", five)], everything=True)
    assert {c.how for c in result.pairs[0].contrasts if c.name.endswith("/plain/acc")} == {OTHER_QUESTIONS}
    assert any("x plain" in note and "questions of the same names have another prompt, other examples" in note
               for note in result.notes)
    assert compare([_entry("a", none), _entry("b", none)]).pairs[0].contrasts[0].how == "paired"
    first, second = (_entry(label, each).chosen for label, each in (("a", none), ("b", five)))
    rules = [{"not_worse": {"on": ["bench/x/plain/acc"]}}]
    assert judged(rules, Subject(second), Subject(first)).status == "cannot tell"
    assert form_changes(first, second, "x", TABLE) == []
    assert not_shared([(first, second)])[0].startswith("x plain: b is not compared to a, questions of the same names")


def test_some_questions_that_were_asked_otherwise_are_left_out_and_counted() -> None:
    def rows(other: int) -> Findings:
        found = [{"task": "t", "variant": "plain", "id": str(n), "item": str(n), "correct": n % 2 == 0, "chosen": 0,
                  "gold": 0, "scores": [0.0, 0.0], "asked": "new" if n < other else "old"} for n in range(100)]
        return Findings({"bench/t/plain/acc": 0.5}, {"bench/t/plain/acc": 0.05}, {"bench/t/plain/acc": 100}, rows=found,
                        headline={"t": ["plain"]})

    result = compare([_entry("a", rows(0)), _entry("b", rows(7))])
    assert {(c.how, c.tested.n, c.otherwise) for c in result.pairs[0].contrasts} == {("paired", 93, 7)}
    assert "t: 7 of 100 questions are not compared between a and b, questions of the same names have another prompt, " \
           "other examples, another right option or other options." in result.notes
    assert not any("share 93" in note for note in result.notes)
    first, second = (_entry(label, rows(n)).chosen for label, n in (("a", 0), ("b", 7)))
    assert {change.tested.items for change in form_changes(first, second, "t", TABLE)} == {93}
    assert "t plain (7 of 100 questions): b is not compared to a" in not_shared([(first, second)])[0]
    older = rows(0)
    for row in older.rows:
        del row["asked"]  # older evaluations have none
    result = compare([_entry("a", older), _entry("b", rows(7))])
    assert {(c.tested.n, c.otherwise) for c in result.pairs[0].contrasts} == {(100, 0)}


def test_a_digest_is_of_the_question_and_not_of_the_order_that_a_seed_draws(model: LanguageModel, tmp_path: Path
                                                                            ) -> None:
    write_items(tmp_path / "x.jsonl", make_items(12))
    section = {"tasks": {"x": ["x.jsonl"]}, "variants": {"permuted": {"permuted": {"k": 2}}, "cloze": None}}
    first, second = (ask_benchmarks(model, tmp_path, section, seed=seed) for seed in (0, 1))
    assert _digests(first) == _digests(second)
    assert [r["gold"] for r in first.rows] != [r["gold"] for r in second.rows]
    assert all(len(digest) == 8 for digest in _digests(first).values())
    assert len(set(_digests(first).values())) == 24  # items and forms differ, orders of one item do not
