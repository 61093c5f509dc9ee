"""Findings and rows of items: what MLflow draws, causes of failures, rows that come back as they were."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from argosy.core.errors import InputError, StepError
from argosy.core.statistics.intervals import Estimate
from argosy.core.statistics.metric import share
from argosy.core.store.files import write_json
from argosy.evidence.compare.checkpoints import Checkpoint, headline_of
from argosy.evidence.results.findings import Findings, is_retryable
from argosy.evidence.results.items import in_order, read_items, write_items
from argosy.evidence.results.rows import Rows


def test_mlflow_draws_the_headline_and_no_constants() -> None:
    found = Findings(headline={"t": ["permuted", "plain"]})
    for form, value, error in (("plain", 0.5, 0.1), ("permuted", 0.25, 0.05), ("cloze", 0.75, 0.2)):
        found.add(f"bench/t/{form}/acc", Estimate(value, error, 10), share(chance="chance"))
        found.add(f"bench/t/{form}/chance", Estimate(0.25, 0.0, 10), share("neither"))
    found.rows = [{"task": "t", "variant": form, "id": item, "correct": item in right, "scores": [0.0, 1.0], "gold": 0}
                  for form, right in (("plain", ""), ("permuted", "abcdef"), ("cloze", "")) for item in "abcdefg"]
    charted = found.charted()
    assert charted.keys() == {"bench/t/plain/acc", "bench/t/permuted/acc", "bench/t/cloze/acc", "headline/t/acc",
                              "headline/t/stderr", "headline/t/form/permuted"}
    assert charted["headline/t/acc"] == pytest.approx(6 / 7)
    compared = Checkpoint("k", "d", "sft", "p100", 1, 1, headline=found.headline)
    compared.rows = Rows(found.rows)
    compared.add_headline("t", ["permuted"])
    name = headline_of("t")
    assert (compared.metrics[name], compared.stderr[name]) == (charted["headline/t/acc"], charted["headline/t/stderr"])


def caused(error: Exception, by: Exception, *, shown: bool = False) -> Exception:
    """`error`, raised while `by` was handled; shown: it names that as its cause."""
    try:
        try:
            raise by
        except Exception as why:
            raise error from (why if shown else None)
    except Exception as made:
        return made


def absent() -> Exception:
    return FileNotFoundError("Unable to find 'none.jsonl'")


@pytest.mark.parametrize(("make", "passes"), [
    (lambda: StepError("the network is down"), True),
    (lambda: InputError("no benchmark"), False), (lambda: ValueError("no benchmark"), False),
    (lambda: ConnectionError("the Hub does not answer"), True), (absent, False),
    (lambda: ImportError("no module named 'jieba'"), True), (lambda: OSError(5, "the disk"), True),
    (lambda: LocalEntryNotFoundError("cannot be asked, and is not in the cache"), True),
    (lambda: caused(StepError("lm-eval cannot load it"), absent()), False),
    (lambda: caused(StepError("lm-eval cannot load it"), absent(), shown=True), False),
    (lambda: caused(StepError("lm-eval cannot load it"), ConnectionError("down")), True),
    (lambda: caused(InputError("cannot be loaded"), caused(ConnectionError("down"), absent())), True)])  # fmt: skip
def test_the_cause_says_whether_a_retry_may_mend_it(make: Callable[[], Exception], passes: bool) -> None:
    assert is_retryable(make()) == passes


ROWS: list[dict[str, Any]] = [
    {"task": "facts", "variant": "plain", "id": "a#1", "item": "a", "lang": "zh", "correct": True, "chosen": 1,
     "gold": 1, "scores": [-1.5, -0.25]},
    {"task": "facts", "variant": "memorisation", "id": "a", "place": [0, 4], "scores": [[-3.0, -4.0], [-1.0, -2.0]]},
    {"task": "probes", "variant": "json", "id": "0", "rank": 3, "prob": 0.125, "text": "{以", "scores": [],
     "margin": 1},
    {"task": "probes", "variant": "other", "id": "1", "margin": 0.5, "about": {"b": [1, "x"], "a": None}}]  # fmt: skip


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    write_items(tmp_path, ROWS)
    assert read_items(tmp_path) == ROWS
    assert [type(row["correct"]) for row in read_items(tmp_path)[:1]] == [bool]


def test_equal_rows_are_equal_bytes_and_other_programs_read_their_types(tmp_path: Path) -> None:
    first = write_items(tmp_path, ROWS).read_bytes()
    assert write_items(tmp_path, [dict(reversed(row.items())) for row in ROWS]).read_bytes() == first
    schema = pq.read_schema(tmp_path / "items.parquet")
    assert schema.names[:3] == ["task", "variant", "id"]
    types = {field.name: str(field.type) for field in schema}
    assert (types["correct"], types["chosen"], types["margin"]) == ("bool", "int64", "double")
    assert types["scores"].startswith("list<")
    assert "scores:lists" in types


def evaluation(root: Path, name: str, ended: float, limit: int | None = None,
               **more: Any) -> tuple[Path, dict[str, Any]]:
    directory = root / name
    directory.mkdir()
    write_json(directory / "run.json", {"ended": ended})
    made = {"config": {"limit": limit} if limit else {}, "upstream": {"checkpoint": ["abc"], "data": ["d"]},
            "external": {"suite_file": more.get("bytes", "core:1")}}  # fmt: skip
    outputs = {"suite": more.get("suite", "core"), "checkpoint": {"name": "half"}}
    return directory, {"made_from": made, "outputs": outputs}


@pytest.mark.parametrize(("others", "expected"), [
    ([], ["old", "new"]),
    ([("quick", 9.0, 5, {})], ["quick", "old", "new"]),  # though it is the newest
    ([("quick", 9.0, 5, {}), ("less", 8.0, 50, {})], ["quick", "less", "old", "new"]),
    ([("quick", 9.0, 5, {"bytes": "core:2"})], ["old", "new", "quick"]),  # the suite has changed
    ([("quick", 1.5, 5, {"suite": "mmlu"})], ["old", "quick", "new"])])
def test_what_counts_is_last(tmp_path: Path, others: list[Any], expected: list[str]) -> None:
    found = [evaluation(tmp_path, "new", 2.0), evaluation(tmp_path, "old", 1.0)]
    found += [evaluation(tmp_path, name, ended, limit, **more) for name, ended, limit, more in others]
    for given in (found, found[::-1]):
        assert [path.name for path, _ in in_order(given)] == expected
