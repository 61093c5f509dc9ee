"""JSON of the store is JSON: no NaN, no infinity, which other programs do not read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from argosy.errors import StepError
from argosy.store.files import write_json


def test_a_number_that_is_not_finite_is_named_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "outputs.json"
    write_json(path, {"a": 1.5, "b": None})
    with pytest.raises(StepError, match=r"outputs\.json would .*: outputs\.heldout\.en is nan, list\[1\] is -inf;"):
        write_json(path, {"outputs": {"heldout": {"en": float("nan")}}, "list": [1.0, float("-inf")]})
    assert json.loads(path.read_text()) == {"a": 1.5, "b": None}
    assert [file.name for file in tmp_path.iterdir()] == ["outputs.json"]
