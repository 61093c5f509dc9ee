"""Files between steps, JSONL and shards: whole or absent, any text, the same bytes; errors with file and line."""

import errno
import json
from collections import Counter
from pathlib import Path

import pytest

from argosy.core.errors import InputError
from argosy.corpus.data.jsonl import MOST_BYTES, JsonlWriters, parse_lines, read_documents, read_jsonl
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.shards import COLUMNS, Format, ShardWriter, _File, read_columns, shard_files

TEXTS = ["plain", "中文 “quotes”", "line\nbreak\u2028and separator\x85", "lone \ud800 surrogate", '\x00\t\\ "quoted"']


def test_any_text_round_trips(tmp_path: Path) -> None:
    documents = [Document(f"d{i}", text, "web", metadata={"n": i}) for i, text in enumerate(TEXTS)]
    with JsonlWriters(tmp_path) as writers:
        writers.write_all("documents/web", [document.to_record() for document in documents])
    assert list(read_documents(tmp_path / "documents")) == documents


def write_and_fail(root: Path, record: dict[str, int]) -> None:
    with JsonlWriters(root) as writers:
        writers.write("kept", record)
        writers.finish("kept")
        writers.write("a", record)
        raise RuntimeError


def test_a_block_that_fails_leaves_finished_files_and_old_ones(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        write_and_fail(tmp_path, {"version": 1})
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["kept.jsonl"]
    with JsonlWriters(tmp_path) as writers:
        writers.write("a", {"version": 1})
    with pytest.raises(RuntimeError):
        write_and_fail(tmp_path, {"version": 2})
    assert list(read_jsonl(tmp_path / "a.jsonl")) == [{"version": 1}]


@pytest.mark.parametrize(("content", "message"), [
    ('{"id": "1", "text": "x", "channel": "c"}\nnot json\n', ":2 is not a record: invalid JSON"),
    ("[1]\n", ":1 is not a record: not a JSON object"),
    ('{"id": "1"}\n', "'text'")])
def test_broken_and_absent_files_are_named(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=r"no \*\.jsonl"):
        list(read_documents(tmp_path))
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(InputError, match=message):
        list(read_documents(tmp_path))


def test_a_line_of_the_users_files_is_never_held_whole(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"x": "' + b"x" * MOST_BYTES + b'"}\n{"x": 1}\n')
    left_out: Counter[str] = Counter()
    assert list(parse_lines(tmp_path / "a.jsonl", lambda _, record: record, left_out)) == [{"x": 1}]
    assert left_out == {f"longer than {MOST_BYTES} bytes": 1}


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
    documents = []
    for path in shard_files(tmp_path / "a"):
        rows = [row for batch in read_columns(path) for row in zip(*batch.values.values(), strict=True)]
        documents += [Document(*row[:4], source=row[4], offset=row[5], metadata=json.loads(row[6])) for row in rows]
        assert len("".join([row[COLUMNS.index("text")] for row in rows]).encode()) <= 50_000
        assert all((row[-1] == ["unicode"]) == (json.loads(row[-2]).get("n", int(row[0][2:])) % 7 == 0) for row in rows)
    assert documents == DOCUMENTS


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
    assert not any(batch.values["id"] for batch in read_columns(tmp_path / "b/documents-00000.parquet"))


def test_a_damaged_or_absent_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a")
    path = shard_files(tmp_path / "a")[1]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"documents-00001\.parquet is damaged .*run it again"):
        list(read_columns(path))
    with pytest.raises(InputError, match=r"has no documents-\*"):
        shard_files(tmp_path)
