"""Which of several evaluations of a checkpoint counts: a quick one never hides a whole one."""

from pathlib import Path
from typing import Any

import pytest

from argosy.evaluation.rows.evaluations import in_order
from argosy.store.files import write_json


def evaluation(root: Path, name: str, ended: float, limit: int | None = None,
               **more: Any) -> tuple[Path, dict[str, Any]]:
    directory = root / name
    directory.mkdir()
    write_json(directory / "run.json", {"ended": ended})
    made = {"config": {"limit": limit} if limit else {}, "upstream": {"checkpoint": ["abc"], "data": ["d"]},
            "external": {"suite_file": more.get("bytes", "core:1")}}  # fmt: skip
    outputs = {"suite": more.get("suite", "core"), "checkpoint": {"name": "half"}}
    return directory, {"made_from": made, "outputs": outputs}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], ["old", "new"]),
        ([("quick", 9.0, 5, {})], ["quick", "old", "new"]),  # though it is the newest
        ([("quick", 9.0, 5, {}), ("less", 8.0, 50, {})], ["quick", "less", "old", "new"]),
        ([("quick", 9.0, 5, {"bytes": "core:2"})], ["old", "new", "quick"]),  # the suite has changed
        ([("quick", 1.5, 5, {"suite": "mmlu"})], ["old", "quick", "new"]),
    ],
)
def test_what_counts_is_last(tmp_path: Path, others: list[Any], expected: list[str]) -> None:
    found = [evaluation(tmp_path, "new", 2.0), evaluation(tmp_path, "old", 1.0)]
    found += [evaluation(tmp_path, name, ended, limit, **more) for name, ended, limit, more in others]
    for given in (found, found[::-1]):
        assert [path.name for path, _ in in_order(given)] == expected
