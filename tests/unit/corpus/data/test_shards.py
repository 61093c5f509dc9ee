"""Shards between steps: of a bounded size, whole or not at all, the same bytes for the same documents."""

import errno
import json
from pathlib import Path

import pytest

from argosy.core.errors import InputError
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.shards import (
    COLUMNS,
    Format,
    ShardWriter,
    _File,
    read_columns,
    read_shard_documents,
    shard_files,
)

pytest.importorskip("pyarrow")
DOCUMENTS = [Document(f"a:{n}", f"第 {n} text " * (n % 50 + 1), "zh" if n % 3 else "en", source=f"a:{n}",
                      metadata={"n": n, "nested": {"a": [None, "\ud800"]}} if n % 2 else {},
                      offset=n * 10 if n % 5 else None) for n in range(500)]  # fmt: skip


def write(folder: Path, format: Format = "parquet", shard_bytes: int = 50_000) -> dict[str, bytes]:
    with ShardWriter(folder, format, shard_bytes, group_bytes=10_000) as writer:
        writer.write_all(DOCUMENTS, [("unicode",) if n % 7 == 0 else () for n in range(len(DOCUMENTS))])
    assert (writer.documents, writer.bytes) == (500, sum(len(each.text.encode()) for each in DOCUMENTS))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("format", ["parquet", "jsonl", "jsonl.zst"])
def test_what_is_written_is_read_back_and_its_bytes_are_the_same_each_time(tmp_path: Path, format: Format) -> None:
    first = write(tmp_path / "a", format)
    assert first == write(tmp_path / "b", format)
    assert sorted(first)[:2] == [f"documents-00000.{format}", f"documents-00001.{format}"]
    assert list(read_shard_documents(tmp_path / "a")) == DOCUMENTS
    for path in shard_files(tmp_path / "a"):
        rows = [row for batch in read_columns(path) for row in zip(*batch.values.values(), strict=True)]
        texts = [row[COLUMNS.index("text")] for row in rows]
        assert len("".join(texts).encode()) <= 50_000
        assert all((row[-1] == ["unicode"]) == (json.loads(row[-2]).get("n", int(row[0][2:])) % 7 == 0) for row in rows)


@pytest.mark.parametrize("how", ["stopped", "full disk"])
def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def fail() -> None:
        with ShardWriter(tmp_path / "a", shard_bytes=1000, group_bytes=1000) as writer:
            writer.write_all(DOCUMENTS[:100])
            if how == "stopped":
                raise RuntimeError("stopped")
            monkeypatch.setattr(_File, "write", full)
            monkeypatch.setattr(_File, "close", full)
            writer.write_all(DOCUMENTS[100:])

    with pytest.raises((RuntimeError, OSError), match=r"stopped|No space left"):
        fail()
    assert list((tmp_path / "a").iterdir()) == []


def test_no_document_is_a_file_of_none(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "b"):
        pass
    assert [path.name for path in shard_files(tmp_path / "b")] == ["documents-00000.parquet"]
    assert list(read_shard_documents(tmp_path / "b")) == []


def test_a_damaged_or_absent_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a")
    path = shard_files(tmp_path / "a")[1]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"documents-00001\.parquet is damaged .*run it again"):
        list(read_shard_documents(tmp_path / "a"))
    with pytest.raises(InputError, match=r"has no documents-\*"):
        shard_files(tmp_path)
