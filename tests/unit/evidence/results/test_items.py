"""items.parquet: what is written comes back, equal rows are equal bytes, and other programs read it; which of several
evaluations of a checkpoint counts: a quick one never hides a whole one."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from argosy.core.store.files import write_json
from argosy.evidence.results.items import in_order, read_items, write_items

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
