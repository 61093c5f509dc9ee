"""Files of the store: JSON that other programs read, and bytes that a power cut leaves whole."""

import json
import os
import stat
from pathlib import Path

import pytest

from argosy.core.errors import StepError
from argosy.core.store.files import write_atomic, write_json


def test_a_number_that_is_not_finite_is_named_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "outputs.json"
    write_json(path, {"a": 1.5, "b": None})
    with pytest.raises(StepError, match=r"outputs\.json would .*: outputs\.heldout\.en is nan, list\[1\] is -inf;"):
        write_json(path, {"outputs": {"heldout": {"en": float("nan")}}, "list": [1.0, float("-inf")]})
    assert json.loads(path.read_text()) == {"a": 1.5, "b": None}
    assert [file.name for file in tmp_path.iterdir()] == ["outputs.json"]


def test_a_files_bytes_are_on_the_disk_before_its_name_and_its_name_after(tmp_path: Path,
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that a power cut needs: sync the bytes, rename, sync the directory."""
    calls: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(file: int) -> None:
        calls.append("directory" if stat.S_ISDIR(os.fstat(file).st_mode) else f"{os.fstat(file).st_size} bytes")
        fsync(file)

    def renamed(self: Path, target: Path) -> Path:
        calls.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    write_atomic(tmp_path / "outputs.json", "seven\n\n")
    assert calls == ["7 bytes", "rename", "directory"]
