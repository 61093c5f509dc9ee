"""JSONL files between steps: whole or absent, any text, errors with file and line."""

from collections import Counter
from pathlib import Path

import pytest

from argosy.core.errors import InputError
from argosy.corpus.data.jsonl import MOST_BYTES, JsonlWriters, parse_lines, read_documents, read_jsonl
from argosy.corpus.data.schemas import Document

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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": "1", "text": "x", "channel": "c"}\nnot json\n', ":2 is not a record: invalid JSON"),
        ("[1]\n", ":1 is not a record: not a JSON object"),
        ('{"id": "1"}\n', "'text'"),
    ],
)
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
