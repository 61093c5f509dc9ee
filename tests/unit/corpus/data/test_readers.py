"""Readers: every format gives its texts with their places, and what is broken is a reject with a place and a reason."""

import csv
import gzip
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from argosy.core.errors import InputError
from argosy.corpus.data.counts import Counts
from argosy.corpus.data.inventory import inventory, shards
from argosy.corpus.data.jsonl import Reject
from argosy.corpus.data.readers import READERS, Span, format_of
from argosy.corpus.data.readers.code import LANGUAGES
from argosy.corpus.data.reading import read_shard
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import InputFile, SourceConfig
from tests.shared_data import shared
from tests.trees import write_file as write


def read(*inputs: Path | str, **given: Any) -> tuple[list[Document], list[Reject], Counts]:
    """Documents, rejects and counts of the inputs."""
    config, counts = SourceConfig(**given), Counts()
    files, _ = inventory([str(path) for path in inputs], config)
    items = list(read_shard(shards(files, 1)[0], config, counts))
    return ([item for item in items if isinstance(item, Document)],
            [item for item in items if isinstance(item, Reject)], counts)


def test_each_reader_has_a_name_and_formats_do_not_overlap() -> None:
    assert {format_of(name) for name in ("a.txt", "a.rst", "a.md")} == {"text"}
    page = (Path(__file__).resolve().parents[4] / "docs/documents.md").read_text()
    listed = {suffix for name, reader in READERS.items() for suffix in reader.suffixes if name != "code"}
    assert listed - set(re.findall(r"\.[a-z]+", page)) == set()
    assert f"{len(READERS['code'].suffixes)} suffixes of {len(LANGUAGES)} languages" in page


def test_the_reader_in_the_docs_works(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[4] / "docs/documents.md").read_text()
    names: dict[str, Any] = {}
    exec(page.partition("```python\n")[2].partition("```")[0], names)
    path = write(tmp_path / "a.srt.gz", gzip.compress(b"1\n00:01 --> 00:02\nHello\nthere\n\n2\n00:03 --> 00:04\nBye\n"))
    reader = names["Subtitles"]()
    (record,) = reader.read(InputFile(str(path), "a.srt.gz", "", reader.name, 1), Span(), SourceConfig())
    assert record.fields == {"text": "Hello\nthere\nBye"}


def test_json_is_an_array_an_object_or_lines(tmp_path: Path) -> None:
    rows = [{"text": f"文 {number}" * 50, "n": number} for number in range(3000)]
    array = write(tmp_path / "array.json", json.dumps(rows, ensure_ascii=False, indent=1))
    documents, rejects, _ = read(array)
    assert [(d.id, d.metadata["n"]) for d in documents] == [(f"array.json:{n + 1}", n) for n in range(3000)]
    raw = array.read_bytes()
    for document in documents[::500]:
        assert json.JSONDecoder().raw_decode(raw[document.offset :].decode())[0]["text"] == document.text
    one = write(tmp_path / "one.json", json.dumps({"text": "one", "b": {"c": 1}}, indent=2))
    lines = write(tmp_path / "lines.json.gz", gzip.compress(b'{"text": "a"}\n{"text": "b"}\nbroken\n'))
    assert [d.text for d in read(one)[0]] == ["one"]
    documents, rejects, _ = read(lines)
    assert ([d.text for d in documents], [(r.line, r.reason) for r in rejects]) == (["a", "b"], [(3, "invalid JSON")])


def test_a_broken_array_gives_what_precedes_and_names_the_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json",
                 b'[{"text": "a"}, 7, {"text": "b\xff"}, {"text": "c"}, {"text": oops}, {"text": "d"}]')
    documents, rejects, counts = read(path)
    assert [d.text for d in documents] == ["a", "c"]
    assert [(r.line, r.reason, r.unit) for r in rejects] == [
        (2, "not a JSON object", "record"), (3, "invalid UTF-8", "record"),
        (5, "the array is broken from here on", "record")]
    assert rejects[2].raw.startswith(b'{"text": oops}')
    assert list(counts.damaged()) == ["a.json"]


@pytest.mark.parametrize("more", ['[{"text": "b"}]', '{"text": "b"}'])
def test_what_stands_behind_an_array_is_named(tmp_path: Path, more: str) -> None:
    documents, rejects, counts = read(write(tmp_path / "a.json", f'\ufeff[{{"text": "a"}}]\n{more}\n'))
    assert [d.text for d in documents] == ["a"]
    assert [(r.line, r.reason, r.raw) for r in rejects] == [(2, "more than one array", f"{more}\n".encode())]
    assert list(counts.damaged()) == ["a.json"]


def test_a_row_that_python_cannot_hold_costs_itself_alone(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(pa.large_string(), 2, [None, pa.array(["ab", "cd"], pa.large_string()).buffers()[1],
                                                          pa.py_buffer(b"\xff\xfecd")])
    columns = {"large": broken, "struct": pa.StructArray.from_arrays([broken], ["x"]),
               "late": pa.array([2**62, 0], pa.timestamp("us"))}
    for name, column in columns.items():
        pq.write_table(pa.table({"text": ["a", "b"], name: column}), tmp_path / f"{name}.parquet")
    documents, rejects, counts = read(tmp_path)
    assert [d.id for d in documents] == [f"{tmp_path.name}/{name}.parquet:2" for name in sorted(columns)]
    assert [r.reason for r in rejects] == ["invalid UTF-8", "value that cannot be read", "invalid UTF-8"]
    assert rejects[0].raw == rb"{'text': 'a', 'large': b'\xff\xfe'}"
    assert not counts.damaged()


def test_a_row_of_a_table_has_the_keys_that_it_had(tmp_path: Path) -> None:
    rows = [{"text": "a", "about": {"by": "x", "tags": [{"en": 1}, {"zh": 2}]}}, {"text": "b", "about": {"year": 1}},
            {"text": "c", "size": 3, "names": [None, "y"]}]
    table = pa.Table.from_pylist(rows, pa.schema([
        ("text", pa.string()), ("size", pa.int64()), ("names", pa.list_(pa.string())),
        ("about", pa.struct([("by", pa.string()), ("year", pa.int64()), ("tags", pa.list_(pa.struct(
            [("en", pa.int64()), ("zh", pa.int64())])))]))]))
    table = table.append_column("map", pa.array([[("k", None)], None, None], pa.map_(pa.string(), pa.int64())))
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "b.arrow", table.schema) as file:
        file.write_table(table)
    rows[0]["map"] = {"k": None}
    documents, rejects, _ = read(tmp_path)
    assert not rejects
    assert [{"text": d.text, **d.metadata} for d in documents] == rows * 2


def test_csv_and_tsv_set_broken_rows_aside_alone(tmp_path: Path) -> None:
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerows([["text", "channel"], ["one, with\nlines and \"quotes\"", "news"], ["二", "zh"]])
    good = buffer.getvalue()
    path = write(tmp_path / "a.csv", good + 'short\n"open, x\nfine,news\n' + "tab\0,x\n" + "last,news\n")
    documents, rejects, _ = read(path)
    assert [(d.text, d.channel) for d in documents] == [
        ('one, with\nlines and "quotes"', "news"), ("二", "zh"), ("fine", "news"), ("last", "news")]
    assert [(r.line, r.reason) for r in rejects] == [
        (5, "row of another length than the 2 names"), (6, "quote that does not end"),
        (8, "NUL byte (not a text file, or UTF-16)")]
    tabs = write(tmp_path / "b.tsv", "text\tlang\nhello, you\ten\n")
    assert [(d.text, d.lang) for d in read(tabs)[0]] == [("hello, you", "en")]


def test_source_code_is_a_document_a_file_with_its_language(tmp_path: Path) -> None:
    write(tmp_path / "code/src/a.py", "  x = 1\n\n\ny = 2\n")
    write(tmp_path / "code/src/b.rs.gz", gzip.compress(b"fn main() {}\n"))
    write(tmp_path / "code/web/c.ts", b"\x47\xff\x00")  # video has this suffix too
    documents, rejects, counts = read(tmp_path / "code")
    assert [(d.id, d.text, d.channel, d.metadata["language"]) for d in documents] == [
        ("code/src/a.py:1", "  x = 1\n\n\ny = 2\n", "src", "Python"),
        ("code/src/b.rs.gz:1", "fn main() {}\n", "src", "Rust")]
    assert [(r.file, r.reason, r.raw) for r in rejects] == [("code/web/c.ts", "invalid UTF-8", b"\x47\xff\x00")]
    assert counts.rejected() == {"invalid UTF-8": 1}


@pytest.mark.parametrize("tool", ["resiliparse", "trafilatura"])
def test_html_gives_the_main_text_in_any_encoding(tmp_path: Path, tool: str) -> None:
    body = "".join(f"<p>第{n}段：这是一段足够长的正文，讲的是长江和黄河的水文，以及两岸的城市。</p>" for n in range(8))
    head = "<html><head><meta charset=gb2312><title>河流</title></head><body>"
    page = f"{head}<nav><a href=/>首页</a></nav><article>{body}"
    write(tmp_path / "in/page.html", page.encode("gb18030"))
    write(tmp_path / "in/empty.htm", "<html><script>var x = 1</script></html>")
    documents, rejects, counts = read(tmp_path / "in", html=tool)
    assert [(d.id, d.metadata.get("title")) for d in documents] == [("in/page.html:1", "河流")]
    assert "第7段" in documents[0].text
    assert "var x" not in documents[0].text
    assert [(r.file, r.reason, r.fault) for r in rejects] == [("in/empty.htm", "page without text", False)]
    counts.check("data.inputs", "")


def test_a_saved_dataset_gives_its_splits_and_no_caches(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"train": [{"text": "a", "label": 0}, {"text": "b", "label": 1}], "test": [{"text": "c", "label": 0}]}
    datasets.disable_progress_bars()
    made = datasets.DatasetDict({name: datasets.Dataset.from_list(each) for name, each in rows.items()})
    made.save_to_disk(str(tmp_path / "set"))
    arrow = tmp_path / "set/train/data-00000-of-00001.arrow"
    (tmp_path / "set/train/cache-1.arrow").write_bytes(arrow.read_bytes())
    documents, _, _ = read(tmp_path / "set")
    assert [(d.id, d.text, d.channel, d.metadata) for d in documents] == [
        ("set/test/data-00000-of-00001.arrow:1", "c", "test", {"label": 0, "split": "test"}),
        ("set/train/data-00000-of-00001.arrow:1", "a", "train", {"label": 0, "split": "train"}),
        ("set/train/data-00000-of-00001.arrow:2", "b", "train", {"label": 1, "split": "train"})]
    assert [d.text for d in read(tmp_path / "set", splits=["train"])[0]] == ["a", "b"]
    with pytest.raises(InputError, match=r"splits has 'trane', and data\.inputs no such split; there are: test, train"):
        read(tmp_path / "set", splits=["trane"])
    (tmp_path / "all").mkdir()
    (tmp_path / "set").rename(tmp_path / "all/set")
    assert {d.channel for d in read(tmp_path / "all")[0]} == {"set"}
    arrow = tmp_path / "all/set/train/data-00000-of-00001.arrow"
    arrow.write_bytes(arrow.read_bytes()[:-8])  # cut off where pyarrow takes it for the end
    assert [r.reason for r in read(tmp_path / "all")[1]] == ["damaged or cut off"]


def test_a_dataset_of_the_hub_is_read_by_its_card(tmp_path: Path) -> None:
    card = ("---\nlicense: mit\nconfigs:\n- config_name: default\n"
            "  data_files:\n  - {split: train, path: data/part-*}\n---\n# A dataset\n\nIts card is no document.\n")
    write(tmp_path / "hub/README.md", card)
    write(tmp_path / "hub/data/part-0.jsonl", '{"text": "a"}\n')
    write(tmp_path / "hub/data/validation-00000.jsonl", '{"text": "b"}\n')
    documents, _, _ = read(tmp_path / "hub")
    assert [(d.text, d.channel, d.metadata) for d in documents] == [
        ("a", "train", {"split": "train"}), ("b", "validation", {"split": "validation"})]
    write(tmp_path / "book/README.md", "# A book\n\nNo card: a text.\n")
    write(tmp_path / "book/a.jsonl", '{"text": "a"}\n')
    assert len(read(tmp_path / "book")[0]) == 2


WARCIO = {  # documents, rejects with a fault, rejects of other content
    "example-bad-non-chunked.warc.gz": (1, 0, 0), "example-bad.warc.gz.bad": (1, 0, 1),
    "example-digest.warc": (0, 0, 0), "example-iana.org-chunked.warc": (1, 0, 0), "example-resource.warc.gz": (1, 0, 0),
    "example-space-in-target-uri.warc.gz": (0, 0, 1),
    "example-trunc.warc": (1, 1, 0), "example-wget-bad-target-uri.warc.gz": (1, 0, 2),
    "example-wrong-chunks.warc.gz": (1, 0, 0),
    "example.warc": (1, 0, 0), "example.warc.gz": (1, 0, 0), "post-test.warc.gz": (0, 0, 3)}  # fmt: skip


@pytest.mark.parametrize("name", WARCIO)
def test_archives_of_warcio_lose_nothing_in_silence(tmp_path: Path, name: str) -> None:
    raw = shared(f"warcio_fixtures/test__data__{name}").read_bytes()
    path = write(tmp_path / name.removesuffix(".bad"), raw)
    documents, rejects, _ = read(path)
    faults = [reject for reject in rejects if reject.fault]
    assert (len(documents), len(faults), len(rejects) - len(faults)) == WARCIO[name]
    assert all(d.text.startswith(("Example Domain", "Internet Assigned")) and d.source.startswith("http")
               for d in documents)


def archive() -> bytes:
    return shared("dolma_fixtures/tests__data__warc__sample-0000.warc.gz").read_bytes()


PAGE = b"<html><body><p>Hello there, reader.</p></body></html>"


@pytest.mark.parametrize("packed", [True, False])
def test_a_broken_record_of_a_warc_is_named_and_costs_itself_alone(tmp_path: Path, packed: bool) -> None:
    whole = archive() if packed else gzip.decompress(archive())
    name = "a.warc.gz" if packed else "a.warc"
    documents, rejects, _ = read(write(tmp_path / name, whole))
    assert (len(documents), [r.reason for r in rejects]) == (22, ["metadata of the archive"] * 2)
    at, behind = documents[10].offset or 0, documents[11].offset or 0  # with a request between them
    texts = [document.text for document in documents]
    few, rejects, _ = read(tmp_path / name, record_bytes=20_000)
    assert 0 < len(few) < 22
    assert Counter(r.reason for r in rejects)["longer than 20000 bytes"] == 22 - len(few)
    broken = {"overwritten": whole[:at] + bytes(behind - at) + whole[behind:],
              "a hole": whole[:at] + whole[at + 100:],
              "cut off": whole[: at + (behind - at) // 3]}
    if packed:
        broken["garbage before"] = whole[:at] + b"\0garbage" * 20 + whole[at:]
    else:
        length = whole.index(b"Content-Length: ", at) + 16
        broken["a length that swallows all"] = whole[:length] + b"9" + whole[length:]
        ends = whole.index(b"\r", length)
        broken["a length that swallows one"] = whole[:length] + str(behind - at).encode() + whole[ends:]
    for how, raw in broken.items():
        kept, rejects, _ = read(write(tmp_path / name, raw))
        lost = [] if how == "garbage before" else texts[10:11] if how != "cut off" else texts[10:]
        assert [document.text for document in kept] == [text for text in texts if text not in lost], how
        faults = [reject for reject in rejects if reject.fault]
        assert len(faults) == 1, how
        assert "byte" in faults[0].value, how


@pytest.mark.parametrize(("payload", "expected"), [
    (gzip.compress(PAGE), ["Hello there, reader."]), (gzip.compress(PAGE)[:-20], []), (PAGE, ["Hello there, reader."]),
], ids=["whole", "cut off", "not packed"])
@pytest.mark.parametrize("chunked", [True, False])
def test_a_page_whose_packed_body_is_cut_off_is_named(
    tmp_path: Path, payload: bytes, expected: list[str], chunked: bool) -> None:
    how = b""
    if chunked:
        payload, how = b"%x\r\n%s\r\n0\r\n\r\n" % (len(payload), payload), b"Transfer-Encoding: chunked\r\n"
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n%s\r\n%s" % (how, payload)
    head = (b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a/\r\nContent-Type: application/http\r\n"
            b"Content-Length: %d\r\n\r\n" % len(http))
    documents, rejects, _ = read(write(tmp_path / "a.warc", head + http + b"\r\n\r\n"))
    assert [document.text for document in documents] == expected
    assert [(r.reason, r.value) for r in rejects] == [
        ("broken HTTP response", "at byte 0: the content is cut off")] * (not expected)
