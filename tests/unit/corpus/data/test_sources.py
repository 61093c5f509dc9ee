"""The user's files: every format is read, nothing unreadable is lost, and errors name the input."""

import base64
import errno
import gzip
import io
import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError, StepError
from argosy.corpus.data.counts import Counts
from argosy.corpus.data.inventory import inventory, shards
from argosy.corpus.data.listing import list_inputs
from argosy.corpus.data.reading import read_shard
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import SourceConfig
from tests.trees import write_files

pa = pytest.importorskip("pyarrow")


def read(*inputs: Path, check: bool = True, **given: Any) -> tuple[dict[str, Any], list[dict[str, Any]], Any]:
    """(documents by id, rejects, (counts, skipped)) of the inputs."""
    config, counts = SourceConfig(**given), Counts()
    files, skipped = inventory([str(path) for path in inputs], config)
    items = list(read_shard(shards(files, 1)[0], config, counts))
    if check:
        counts.check("data.inputs", "rejects")
    documents = {item.id: item for item in items if isinstance(item, Document)}
    return documents, [item.to_record() for item in items if not isinstance(item, Document)], (counts, skipped)


def lines(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def test_each_unreadable_line_is_kept_with_its_place_reason_and_bytes(tmp_path: Path) -> None:
    bad = {2: (b"{broken", "invalid JSON"), 3: (b'{"text": "\xff\xfe"}', "invalid UTF-8"),
           4: (b"[1, 2]", "not a JSON object"), 5: (b'{"body": "x"}', "no field 'text'"),
           6: (b'{"text": 7}', "field 'text' is not a string"), 7: (b'{"text": "  "}', "empty text"),
           8: (b'{"text": "\\ud800"}', "text has a lone surrogate"), 9: (b"[" * 100_000, "invalid JSON")}
    good = [lines({"text": f"good {number}"}).strip() for number in range(9)]
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"\n".join([good[0], *(raw for raw, _ in bad.values()), *good[1:]]) + b"\n")
    documents, rejects, (counts, _) = read(source)
    assert len(documents) == counts.files["in.jsonl"].read == 9
    assert {r["line"]: r["reason"] for r in rejects} == {number: reason for number, (_, reason) in bad.items()}
    for reject in rejects:
        raw = reject["raw"].encode() if "raw" in reject else base64.b64decode(reject["raw_base64"])
        assert raw.rstrip(b"\n") == bad[reject["line"]][0]
        assert reject["file"] == "in.jsonl"


def test_mostly_unreadable_input_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(lines({"text": "good"}) + b"bad\nbad\n")
    with pytest.raises(InputError, match=r"2 of 3 lines are unreadable, more than half \(invalid JSON: 2\)"):
        read(source)
    source.write_bytes("全部都是国标码\n".encode("gbk") * 5)
    with pytest.raises(InputError, match=r"all 5 lines are unreadable .*Convert it to UTF-8"):
        read(source)
    blank = tmp_path / "notes.md"  # its blank lines are no lines that were read
    blank.write_bytes(b"A good line.\n" + b"\n" * 50 + "国标码\n".encode("gbk") * 30)
    with pytest.raises(InputError, match="30 of 31 lines are unreadable, more than half"):
        read(blank)


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst", ".parquet"])
def test_a_damaged_file_is_named_with_its_place_and_alone_it_is_refused(tmp_path: Path, suffix: str) -> None:
    import pyarrow.parquet as pq

    records = [{"text": f"document {number} {number**7}"} for number in range(5000)]
    source = tmp_path / f"in{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), source)
    else:
        raw = lines(*records)
        source.write_bytes(gzip.compress(raw) if "gz" in suffix else pa.compress(raw, codec="zstd", asbytes=True))
    source.write_bytes(source.read_bytes()[: source.stat().st_size // 5])
    documents, (*_, last), (counts, _) = read(source, check=False)
    assert last["reason"] == "damaged or cut off"
    assert last.get("line", last.get("row")) == len(documents) + 1
    with pytest.raises(InputError, match=rf"in\{suffix} cannot be read to its end: .*after .* Copy or make it anew"):
        counts.check("data.inputs", "rejects")
    counts.files["other"] = counts.files[next(iter(counts.files))]
    with pytest.raises(InputError, match=r"\(and likewise other\) cannot be read"):  # each of them, not their number
        counts.check("data.inputs", "rejects")
    whole = write_files(tmp_path / "whole", {f"{number}.jsonl": lines({"text": "good"}) for number in range(99)})
    source.rename(whole / f"bad{suffix}")  # one of a hundred is its own loss
    rest, _, (counts, _) = read(whole)
    assert (len(rest), list(counts.damaged())) == (len(documents) + 99, [f"whole/bad{suffix}"])


def test_a_disk_that_fails_is_a_failed_run_and_no_reject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.BytesIO):
        def readline(self, size: int | None = -1) -> bytes:
            if self.tell() > 1000:
                raise OSError(errno.EIO, "Input/output error")
            return super().readline(size)

    def failing(path: str) -> Failing:
        return Failing(Path(path).read_bytes())

    source = tmp_path / "in.jsonl"
    source.write_bytes(lines(*[{"text": "good"}] * 1000))
    monkeypatch.setattr("argosy.corpus.data.readers.encodings.open_binary", failing)
    with pytest.raises(StepError, match=r"in\.jsonl cannot be read after line 59 .*Input/output error.*: run again"):
        read(source)


@pytest.mark.parametrize(("name", "content", "message"), [
    ("absent.txt", None, "absent.txt does not exist"),
    ("empty.txt", b"", r"empty.txt is empty"),
    ("blank.txt", b" \n\n", "it holds no text"),
    ("a.pdf", b"%PDF", "unknown format; allowed: text \\(.txt"),
    ("directory/x.pdf", b"%PDF", "directory without a file to read")])
def test_wrong_inputs_are_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        write_files(tmp_path, {name: content})
    given = (tmp_path / name).parent if "directory" in name else tmp_path / name
    with pytest.raises(InputError, match=message):
        read(given)


def test_a_folder_without_a_readable_file_is_refused_and_empty_files_are_named(tmp_path: Path) -> None:
    code = {f"code/{number}.exe": "x = 1\n" for number in range(319)}
    root = write_files(tmp_path / "corpus", {
        **code, "prose/a.txt": "text", "prose/blank.md": "\n\n", "prose/empty.jsonl": ""})
    with pytest.raises(InputError, match=r"no file of the folder code can be read \(319 \.exe; allowed.*skip=\[code\]"):
        read(root)
    assert [Path(file.path).name for file in list_inputs([str(root)])[0]] == ["a.txt", "blank.md", "empty.jsonl"]
    documents, _, (counts, skipped) = read(root, skip=["code"])
    assert [document.text for document in documents.values()] == ["text"]
    assert skipped[:1] == ["corpus/code/0.exe (unknown format)"]
    assert [*skipped[319:], *counts.empty()] == ["corpus/prose/empty.jsonl (empty)", "corpus/prose/blank.md"]


def test_linked_and_marked_folders_are_named_and_no_channel_is_lost(tmp_path: Path) -> None:
    names = ("in/books/x.txt", "in/_wiki/z.txt", "in/books/_old/o.txt", "in/.git/g.txt", "elsewhere/y.txt")
    write_files(tmp_path, dict.fromkeys(names, "hello\n"))
    (tmp_path / "in/web").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"no file of the folder _wiki can be read \(1 \.txt; .*begin with no _"):
        read(tmp_path / "in")
    with pytest.raises(InputError, match=r"no file of the folder web can be read \(1 link; .*that are no links"):
        read(tmp_path / "in", skip=["_wiki"])
    documents, _, (_, skipped) = read(tmp_path / "in", skip=["_wiki", "web"])
    assert list(documents) == ["in/books/x.txt:1"]
    assert skipped == ["in/_wiki/z.txt (a name on its path begins with _)",
                       "in/books/_old/o.txt (a name on its path begins with _)",
                       "in/web (a link to a folder, or to nothing)"]


@pytest.mark.parametrize(("first", "second"), [("C", "C++"), ("wiki/en", "wiki_en")])
def test_two_channels_of_one_name_are_refused(tmp_path: Path, first: str, second: str) -> None:
    (tmp_path / "in.jsonl").write_bytes(lines({"text": "x", "channel": first}, {"text": "y", "channel": second}))
    with pytest.raises(InputError, match=re.escape(f"channels {first!r} and {second!r} would both be named")):
        read(tmp_path / "in.jsonl")


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst", ".txt"])
def test_a_record_that_is_too_long_is_set_aside_without_being_held(tmp_path: Path, suffix: str) -> None:
    raw = lines({"text": "first"}) + b'{"text": "' + b"x" * 2**26 + b'"}\n' + lines({"text": "last"})
    packed = {".jsonl.gz": gzip.compress, ".jsonl.zst": lambda raw: pa.compress(raw, codec="zstd", asbytes=True)}
    (tmp_path / f"in{suffix}").write_bytes(packed.get(suffix, bytes)(raw))
    del raw
    tracemalloc.start()
    documents, rejects, _ = read(tmp_path / f"in{suffix}", record_bytes=2**20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24
    assert "".join(document.text for document in documents.values()).count("first") == 1
    assert "".join(document.text for document in documents.values()).count("last") == 1
    assert [(r["line"], r["reason"], len(r["raw"])) for r in rejects] == [(2, "longer than 1048576 bytes", 1000)]


def test_channel_is_field_then_config_then_folder_and_never_reserved(tmp_path: Path) -> None:
    root = write_files(tmp_path / "corpus", {
        "news/2024/a.jsonl": lines({"text": "x", "channel": "sport/ball"}, {"text": "y"}), "b.txt": "top",
        "notes.docx": "?"})
    documents, _, (_, skipped) = read(root)
    channels = {document.text: document.channel for document in documents.values()}
    assert channels == {"x": "sport_ball", "y": "news", "top": "text"}
    assert skipped == ["corpus/notes.docx (unknown format)"]
    fixed, _, _ = read(root, channel="mine", lang="en")
    channels = {document.text: (document.channel, document.lang) for document in fixed.values()}
    assert channels == {"x": ("sport_ball", "en"), "y": ("mine", "en"), "top": ("mine", "en")}
    (root / "c.jsonl").write_bytes(lines({"text": "x", "channel": "instructions"}))
    with pytest.raises(InputError, match="reserved for conversations"):
        read(root)


def test_text_files_are_cut_at_blank_lines_and_lose_only_bad_lines(tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {number} " + "word " * 40 for number in range(30)]
    raw = "\n\n".join(paragraphs).encode().replace(b"Paragraph 7", b"Paragraph \xff")
    (tmp_path / "book.txt").write_bytes(b"\xef\xbb\xbf" + raw)
    documents, rejects, _ = read(tmp_path / "book.txt", text_chars=1000)
    assert len(documents) > 3
    assert [reject["line"] for reject in rejects] == [15]
    joined = "\n\n".join(document.text for document in documents.values())
    assert joined.startswith("Paragraph 0 ")
    assert all(paragraph.strip() in joined for number, paragraph in enumerate(paragraphs) if number != 7)


def test_a_file_that_two_inputs_give_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/x.txt": "A text."})
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for twice in (["a", "a"], ["a", "a/x.txt"], ["a/x.txt", "link"]):
        with pytest.raises(InputError, match=r"both give .*x\.txt, whose documents would come twice"):
            inventory([str(tmp_path / each) for each in twice], SourceConfig())


def test_names_with_an_underscore_are_read_where_they_are_code(tmp_path: Path) -> None:
    names = ("pkg/__init__.py", "pkg/_internal/_c.rs", "pkg/_notes.md", "pkg/_SUCCESS", "_temporary/part.jsonl")
    root = write_files(tmp_path / "in", dict.fromkeys(names, '{"text": "x"}'))
    documents, _, (_, skipped) = read(root, skip=["_temporary"])
    assert sorted(documents) == ["in/pkg/__init__.py:1", "in/pkg/_internal/_c.rs:1"]
    assert skipped == [f"in/{name} (a name on its path begins with _)" for name in
                       ("_temporary/part.jsonl", "pkg/_notes.md")]
