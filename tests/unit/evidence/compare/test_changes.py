"""What the report says is true of the items: who is best, what changed, who has seen the test."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from argosy.core.statistics.decisions import TABLE
from argosy.core.store.files import read_json, write_json
from argosy.evidence.compare.changes import Comparison, compare, is_headline, not_shared, text_changes
from argosy.evidence.compare.checkpoints import Checkpoint, read_checkpoints
from argosy.evidence.compare.sentences import stage_sentences
from argosy.evidence.results.items import read_items, write_items
from argosy.evidence.results.rows import Rows
from tests.comparison_fixtures import checkpoint
from tests.report_fixtures import CHANNELS, HONEST, Store, make_store

ITEMS = 100


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return make_store(tmp_path_factory.mktemp("store"), items=ITEMS)


@pytest.fixture(scope="module")
def found(store: Store) -> Comparison:
    return compare(read_checkpoints(store.checkpoints, store.evaluations))


def _labels(found: Comparison) -> dict[str, str]:
    return {c.key: c.label for c in found.checkpoints.every}


def test_the_best_is_not_the_one_that_plain_accuracy_ranks_first(found: Comparison) -> None:
    (task,) = found.tasks
    labels = _labels(found)
    assert labels[max(task.standings, key=lambda s: s.plain or 0).checkpoint] == "twin"
    assert {labels[key] for key in task.seen} == {"twin"}
    assert labels[task.highest] in ("anneal", "sft", "dpo", "rlhf")
    assert task.best is None  # they are equal but for noise
    assert "No best on facts: the highest is not apart from " in stage_sentences(found)[0].text
    assert any("twin has likely seen the test: score +" in s.text for s in stage_sentences(found) if s.kind == "seen")


def test_a_stage_is_compared_with_the_stage_before_on_the_same_items(found: Comparison) -> None:
    (task,) = found.tasks
    labels = _labels(found)
    pairs = {(labels[c.first], labels[c.second]) for c in task.stages}
    assert pairs == {("pretrain", "long_context"), ("long_context", "anneal"), ("anneal", "sft"), ("anneal", "twin"),
                     ("sft", "dpo"), ("sft", "rlhf")}
    for change in task.stages:
        first, second = found.checkpoints[change.first], found.checkpoints[change.second]
        assert change.tested.items == 2 * ITEMS
        if not is_headline(change):  # what evaluate itself reports
            assert change.before == pytest.approx(first.metrics[change.name])
            assert change.difference.value == pytest.approx(second.metrics[change.name] - first.metrics[change.name])
        assert change.difference.low <= change.difference.value <= change.difference.high
    assert next(c for c in task.stages if labels[c.second] == "anneal" and is_headline(c)).verdict == "better"


def test_forgotten_text_is_told_with_its_channel(found: Comparison) -> None:
    forgotten = {(_labels(found)[t.second], t.kind.short) for t in found.texts if t.verdict == "worse"}
    everywhere = {("twin", channel) for channel in CHANNELS}  # it knows less: 0.04 bits a byte
    assert {("sft", "code"), *everywhere} <= forgotten
    assert len(forgotten) <= 6  # a table's correction lets one in twenty of what it marks be noise
    told = stage_sentences(found)
    assert any(s.kind == "forgotten" and s.text.startswith("sft forgot") and "code" in s.text for s in told)


def test_no_loss_is_never_an_all_clear(tmp_path: Path) -> None:
    made = make_store(tmp_path, HONEST[:5], items=5)
    found = compare(read_checkpoints(made.checkpoints, made.evaluations))
    (said,) = [s for s in stage_sentences(found) if "Held-out" in s.text]
    assert said.kind == "note"
    assert "no loss that matters (0.01 bits a byte or more) is shown by these documents (80 a channel)" in said.text


def _with_texts(key: str, nats: Sequence[float], size: Sequence[int], *suites: str) -> Checkpoint:
    """A checkpoint with losses of documents of English text, as the suites (`NAME`, `NAME#settings`) measured them."""
    found = Rows()
    for name in suites or ("heldout",):
        suite, _, settings = name.partition("#")
        found.update(Rows([{"task": suite, "variant": "en", "id": str(n), "nats": loss, "bytes": each}
                           for n, (loss, each) in enumerate(zip(nats, size, strict=True))], settings))
    return checkpoint(key, found)


def test_documents_of_another_corpus_are_not_compared() -> None:
    first = _with_texts("a", [100.0] * 9, range(50, 59))
    other = _with_texts("b", [100.0] * 9, range(60, 69))
    assert text_changes([(first, other)], TABLE) == []
    (note,) = not_shared([(first, other)])
    assert "Held-out text (en): b is not compared to a, they share less than two documents" in note
    assert not_shared([(first, first)]) == []
    assert [t.tested.n for t in text_changes([(first, first)], TABLE)] == [9]


@pytest.mark.parametrize(("before", "after", "why"), [
    (["heldout"], ["core"], "suites heldout and core"),
    (["heldout#0a"], ["heldout#0b"], "suite heldout, which changed in between"),
    (["heldout"], ["heldout#0b"], "suite heldout, which changed in between"),
    (["core", "heldout#0a"], ["heldout#0b"], "suite heldout, which changed in between")])  # fmt: skip
def test_losses_of_two_suites_are_not_compared(before: list[str], after: list[str], why: str) -> None:
    first, second = (_with_texts(key, [100.0 + n for n in range(9)], [50] * 9, *suites)
                     for key, suites in (("a", before), ("b", after)))
    assert text_changes([(first, second)], TABLE) == []
    (note,) = not_shared([(first, second)])
    assert note == (f"Held-out text (en): b is not compared to a, they were measured with {why}: evaluate both with "
                    "the same suite and data.")


@pytest.fixture
def small(tmp_path: Path) -> Store:
    return make_store(tmp_path, HONEST[:3], items=10)


def _benchmarks(small: Store) -> list[Path]:
    return [Path(path) for path in small.evaluations if "benchmark" in path]


def test_exports_of_a_stage_follow_each_other(small: Store) -> None:
    every = read_checkpoints(small.checkpoints, small.evaluations).every
    assert [c.label for c in every] == ["pretrain/p025", "pretrain/p050", "pretrain"]
    assert [c.final for c in every] == [False, False, True]
    assert [c.parent for c in every] == [None, every[0].key, every[1].key]


BROKEN = {"task": "facts", "variant": "plain", "id": "x", "correct": True, "chosen": 7, "gold": 0, "scores": [0.0, 1.0]}


def test_broken_rows_are_counted_and_left_out(small: Store) -> None:
    directory = _benchmarks(small)[0]
    write_items(directory, [*read_items(directory), BROKEN])
    found = read_checkpoints(small.checkpoints, small.evaluations)
    assert found.notes == [f"{directory.name}: 1 rows of its items are broken and left out."]
    assert len(found.every[0].answers["facts", "plain"].rows) == 20


def test_absent_items_and_metrics_are_named(small: Store) -> None:
    first, second, third = _benchmarks(small)
    (first / "items.parquet").unlink()
    done = read_json(second / "outputs.json")
    done["outputs"] |= {"metrics": {}, "stderr": {}, "counts": {}}
    write_json(second / "outputs.json", done)
    items = next(Path(path) for path in small.evaluations if "heldout" in path) / "items.parquet"
    items.write_bytes(items.read_bytes()[:-50])
    (third / "outputs.json").unlink()
    notes = " ".join(read_checkpoints(small.checkpoints, small.evaluations).notes)
    assert f"{first.name} is not compared item by item: it has no items.parquet" in notes
    assert f"{second.name} holds no metric" in notes
    assert f"{items.parent.name} is not compared item by item: items.parquet is broken" in notes
    assert f"{third.name} is not done" in notes


def _one(value: float, stderr: float, n: int, name: str = "bench/t/plain/acc") -> Checkpoint:
    return Checkpoint("k", "d", "s", "n", 0, 0, metrics={name: value}, stderr={name: stderr}, counts={name: n})


def test_an_unknown_error_has_no_interval() -> None:
    assert _one(0.5, math.nan, 10).interval("bench/t/plain/acc") is None
    assert _one(0.5, 0.1, 10).interval("heldout/bpb/en") is None
    assert _one(1.5, 0.1, 10, "heldout/bpb/en").interval("heldout/bpb/en") == pytest.approx((1.304, 1.696), abs=1e-3)
