"""Texts in other encodings, long windows of zstd and what JSON lacks are read, or refused by name."""

import base64
import gzip
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from argosy.core.errors import InputError
from argosy.corpus.data.shards import ShardWriter
from argosy.corpus.data.sources import SourceConfig
from tests.unit.corpus.data.test_sources import lines, read

pa = pytest.importorskip("pyarrow")


ENCODED = {"gb18030": "国标码的文字，二〇二六年。", "big5": "繁體中文的文字，博物館和夜市。",
           "shift_jis": "日本語の文字です。", "cp1251": "Русский текст в старой кодировке.",
           "utf-16": "wide 中 🐈", "utf-8": "é 中 🐈"}


@pytest.mark.parametrize("encoding", ENCODED)
@pytest.mark.parametrize("given", ["named", "auto"])
def test_text_in_another_encoding_is_read_as_it_is(tmp_path: Path, encoding: str, given: str) -> None:
    words = ENCODED[encoding]
    texts = [f"{words} {number}\n第二行\n" if encoding in ("gb18030", "utf-16") else f"{words} {number}\n" * 20
             for number in range(50)]
    written = {"a.jsonl": "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts),
               "b.json": json.dumps([{"text": text} for text in texts], ensure_ascii=False, indent=1),
               "c.csv": "text\n" + "".join(f'"{text}"\n' for text in texts), "d.py": f"# {words}\n" * 20,
               "e.md": f"{words}\n\n" * 20}
    for name, text in written.items():
        (tmp_path / name).write_bytes(text.encode(encoding))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(written["a.jsonl"].encode(encoding)))
    for name in (*written, "a.jsonl.gz"):
        documents, rejects, _ = read(tmp_path / name, encoding="auto" if given == "auto" else encoding.upper())
        found = [document.text for document in documents.values()]
        assert not rejects
        assert found == (texts if name[0] in "abc" else [written[name].strip() if name == "e.md" else written[name]])


def test_bytes_that_are_no_text_in_the_encoding_are_set_aside_as_they_lie_there(tmp_path: Path) -> None:
    good = "好的一行".encode("gbk")
    (tmp_path / "a.txt").write_bytes(b"\n".join([good, b"\xff\xffbad" + good, good]))
    documents, (reject,), _ = read(tmp_path / "a.txt", encoding="gbk")
    assert [document.text for document in documents.values()] == ["好的一行\n好的一行"]
    assert (reject["line"], reject["reason"]) == (2, "invalid GBK")
    assert base64.b64decode(reject["raw_base64"]) == b"\xff\xffbad" + good + b"\n"
    (tmp_path / "b.txt").write_bytes(("好的一行" * 99).encode() + b"\n\xff\xffbad\n")
    _, (reject,), _ = read(tmp_path / "b.txt", encoding="auto")
    assert (reject["reason"], base64.b64decode(reject["raw_base64"])) == ("invalid UTF-8", b"\xff\xffbad\n")


def test_an_encoding_that_is_not_the_file_s_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("很多很多的文字\n" * 9, encoding="utf-8")
    with pytest.raises(InputError, match=r"UTF-8 and not gb18030.*Set data.source.encoding=auto"):
        read(tmp_path / "a.txt", encoding="gb18030")
    (tmp_path / "a.txt").write_text("很多很多的文字\n" * 9, encoding="gb18030")
    with pytest.raises(InputError, match=r"invalid UTF-8.*data.source.encoding"):
        read(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_bytes(b"ascii " * 2**18 + "naïve café".encode())  # beyond the first MiB
    with pytest.raises(InputError, match="UTF-8 and not cp1252"):
        read(tmp_path / "a.txt", encoding="cp1252")
    for name in ("gb18031", "hex", "rot13"):
        with pytest.raises(ValidationError, match=f"'{name}' is no encoding; allowed: auto"):
            SourceConfig(encoding=name)
    assert SourceConfig(encoding="UTF8").identity() == SourceConfig().identity()


def zstd_frame(raw: bytes, exponent: int) -> bytes:
    """A frame of zstd (RFC 8878) of one raw block, that asks for a window of 2**exponent bytes."""
    return b"\x28\xb5\x2f\xfd" + bytes([0, (exponent - 10) << 3]) + (1 | len(raw) << 3).to_bytes(3, "little") + raw


def test_a_long_window_of_zstd_is_refused_as_such_and_not_as_damage(tmp_path: Path) -> None:
    path, raw = tmp_path / "in.jsonl.zst", lines({"text": "sound"})
    path.write_bytes(zstd_frame(raw, 27) * 2)
    assert len(read(path)[0]) == 2
    for frames, needed in ((zstd_frame(raw, 31), "of 2048 MiB"),
                           (zstd_frame(raw, 20) + zstd_frame(raw, 28), "of more than 128 MiB")):
        path.write_bytes(frames)
        with pytest.raises(InputError, match=rf"in.jsonl.zst was packed with a window {needed} .*Pack it anew"):
            read(path)


def test_what_json_has_no_word_for_is_never_written(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    bad = ['{"text": "x", "score": NaN}', '{"text": "x", "deep": [{"a": -Infinity}]}']
    good = ['{"text": "big", "score": 1e999}', '{"text": "NaN and Infinity", "score": 0.5}']
    (tmp_path / "a.jsonl").write_text("\n".join([*bad, *good]))
    (tmp_path / "b.json").write_text(f"[{', '.join([*bad, *good])}]")
    pq.write_table(pa.Table.from_pylist([{"text": "t", "score": float("nan")}, {"text": "u", "score": 2.0}]),
                   tmp_path / "c.parquet")
    for name, scores in (("a.jsonl", [None, 0.5]), ("b.json", [None, 0.5]), ("c.parquet", [None, 2.0])):
        documents, rejects, _ = read(tmp_path / name)
        assert [reject["reason"] for reject in rejects] == ["NaN or Infinity, which JSON does not have"] * (
            0 if "parquet" in name else 2)
        with ShardWriter(tmp_path / f"out-{name}", format="jsonl") as writer:
            for document in documents.values():
                writer.write(document)
        strict = [json.loads(line, parse_constant=pytest.fail) for path in (tmp_path / f"out-{name}").glob("*.jsonl")
                  for line in path.read_text().splitlines()]
        assert [json.loads(row["metadata"], parse_constant=pytest.fail)["score"] for row in strict] == scores
