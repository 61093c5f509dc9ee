"""Files of the store: JSON that other programs read, bytes that a power cut leaves whole, and inputs by URI."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError, StepError
from argosy.core.store.files import write_atomic, write_json
from argosy.core.store.provenance import Identities
from argosy.core.store.remote import absolute, expand_input


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


fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    system.pipe({"/store/a/x.txt": b"one", "/store/a/y.txt": b"two"})
    yield system
    system.rm("/store", recursive=True)


def test_paths_and_uris_of_stores_are_taken_and_others_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert [expand_input(given) for given in ("~/a", "a/b", "file:///x/y", "s3://b/k", "memory://a")] == [
        "/home/me/a", "a/b", "/x/y", "s3://b/k", "memory://a"]
    for given, words in (("https://x.org/a", "is a URL, allowed: a path, or a URI of a store"),
                         ("s4://b/k", "there is no protocol 's4', allowed: a path, or a URI that fsspec knows"),
                         ("s3://", "names nothing in the store"), ("hf://datasets/x", "names no repository")):
        with pytest.raises(ValueError, match=words):
            expand_input(given)
    assert (absolute("s3://b/k"), absolute("/x/../y")) == ("s3://b/k", "/y")


def test_what_a_store_says_of_its_files_is_the_identity(memory: Any) -> None:
    def identity(uri: str = "memory://store/a") -> str:
        return Identities().of(uri, "data.inputs")

    first = identity()
    assert first == identity() != identity("memory://store/a/x.txt")
    memory.pipe("/store/a/y.txt", b"two")  # written anew
    assert identity() != first
    with pytest.raises(InputError, match=r"data\.inputs: memory://store/none does not exist, or holds no file"):
        identity("memory://store/none")
