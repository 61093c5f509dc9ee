"""The inventory and its shards: the same documents for any number of them, and inputs that change are named."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.corpus.data.counts import Counts, gather
from argosy.corpus.data.inventory import inventory, one_shard, shards, write_inventory
from argosy.corpus.data.jsonl import JsonlWriters
from argosy.corpus.data.reading import Item, Sample, hash_of, read_sample, read_shard
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import InputFile, SourceConfig

SMALL = 5000  # bytes after which a file is cut
CONFIG = SourceConfig(text_chars=300)


def corpus(root: Path) -> Path:
    """A folder with a file of each kind that is cut, and some that are not."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (root / "books").mkdir(parents=True)
    records = [{"text": f"Document {n}. " + "字 word " * (n % 40), "n": n} for n in range(300)]
    raw = "".join(json.dumps(record, ensure_ascii=False) + "\n" + ("\n" if record["n"] % 9 == 0 else "")
                  for record in records).encode()
    (root / "a.jsonl").write_bytes(raw[:20_000] + b"\nbroken\n" + raw[raw.index(b"\n", 20_000) + 1:])
    (root / "b.jsonl.gz").write_bytes(gzip.compress(raw))
    pq.write_table(pa.Table.from_pylist(records), root / "c.parquet", row_group_size=37, compression="none")
    paragraphs = [f"Paragraph {n}: " + "lorem ipsum " * (n % 30) + "\nand a second line." for n in range(200)]
    (root / "books/d.md").write_text("\n\n".join(paragraphs))
    (root / "e.csv").write_text("text\n" + "\n".join(f"row {n}" for n in range(50)))
    return root


def read(files: list[InputFile], count: int) -> tuple[list[Item], Counts]:
    """Items of all shards, one after the other, and their counts."""
    items: list[Item] = []
    parts = []
    for shard in shards(files, count):
        counts = Counts()
        items += read_shard(shard, CONFIG, counts)
        parts.append(Counts.from_json(json.loads(json.dumps(counts.to_json()))))
    return items, gather(parts)


def test_documents_ids_and_order_are_the_same_for_any_number_of_shards(tmp_path: Path) -> None:
    root = corpus(tmp_path / "in")
    files, skipped = inventory([str(root)], CONFIG, SMALL)
    assert {Path(file.path).name: len(file.cuts) > 2 for file in files} == {
        "a.jsonl": True, "b.jsonl.gz": False, "c.parquet": True, "d.md": True, "e.csv": False}
    one, counts = read(files, 1)
    for count in (2, 7, 200):
        assert read(files, count) == (one, counts)
    assert skipped == []
    ids = [item.id for item in one if isinstance(item, Document)]
    assert len(ids) == len(set(ids))
    lines = (root / "a.jsonl").read_bytes().splitlines()
    for item in one:
        if isinstance(item, Document) and item.id.startswith("in/a.jsonl:"):
            assert json.loads(lines[int(item.id.partition(":")[2]) - 1])["text"] == item.text
            assert (root / "a.jsonl").read_bytes()[item.offset:].startswith(b'{"text"')
    whole, _ = inventory([str(root)], CONFIG)
    without_texts = [item for item in one if "d.md" not in getattr(item, "id", "")]  # a cut ends a piece of a text
    assert [item for item in read(whole, 1)[0] if "d.md" not in getattr(item, "id", "")] == without_texts


def test_shards_are_balanced_by_bytes_in_order_and_none_is_empty_without_need(tmp_path: Path) -> None:
    files, _ = inventory([str(corpus(tmp_path / "in"))], CONFIG, SMALL)
    cuts = sum(len(file.cuts) for file in files)
    largest = max(cut.weight for file in files for cut in file.cuts)
    total = sum(cut.weight for file in files for cut in file.cuts)
    for count in (1, 2, 3, 7, cuts):
        made = shards(files, count)
        weights = [sum(piece.weight for piece in shard.pieces) for shard in made]
        assert sum(weights) == total
        assert min(weights) > 0
        assert max(weights) <= total / count + largest
    assert sum(not shard.pieces for shard in shards(files, cuts + 5)) == 5
    assert [shard.pieces for shard in shards([], 2)] == [(), ()]


def test_the_inventory_is_written_without_a_path_and_read_for_where_the_files_are(tmp_path: Path) -> None:
    root = corpus(tmp_path / "in")
    files, _ = inventory([str(root)], CONFIG, SMALL)
    write_inventory(tmp_path, files, ["in/x.pdf"])
    raw = (tmp_path / "documents.json").read_text()
    assert str(tmp_path) not in raw
    moved = tmp_path / "elsewhere" / "in"
    moved.parent.mkdir()
    root.rename(moved)
    again = [piece.file for piece in one_shard(tmp_path, [str(moved)], 0, 1).pieces]
    assert [file.path for file in again] == [str(moved / file.inner) for file in files]
    write_inventory(tmp_path, again, ["in/x.pdf"])
    assert (tmp_path / "documents.json").read_text() == raw
    assert len(read(again, 3)[0]) > 900
    assert [one_shard(tmp_path, [str(moved)], number, 7) for number in range(7)] == shards(again, 7)
    with pytest.raises(InputError, match="lists files of input 0, and 0 inputs are given"):
        one_shard(tmp_path, [], 0, 1)
    (tmp_path / "documents.json").write_text(raw[: raw.rindex("{") - 2])  # its last file is gone
    with pytest.raises(InputError, match="is damaged"):
        one_shard(tmp_path, [str(moved)], 0, 1)


@pytest.mark.parametrize("when", ["before", "between"])
@pytest.mark.parametrize("change", ["gone", "longer", "same size"])
def test_an_input_that_vanishes_or_changes_is_named(tmp_path: Path, when: str, change: str) -> None:
    path = corpus(tmp_path / "in") / "a.jsonl"
    files, _ = inventory([str(path)], CONFIG, SMALL)
    before = path.stat()

    def alter() -> None:
        if change == "gone":
            path.unlink()
        elif change == "longer":
            path.write_bytes(path.read_bytes() + b"\n")
        else:
            path.write_bytes(path.read_bytes().replace(b"Document", b"document"))
            if when == "before":  # the clock of a file is no witness
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    if when == "before":
        alter()
    items = read_shard(shards(files, 1)[0], CONFIG)
    if when == "between":
        next(items)
        alter()
    reason = "is not there any more" if change == "gone" else "has changed since the data step listed it"
    with pytest.raises(InputError, match=rf"data\.inputs: a\.jsonl {reason} .*run the same command again"):
        list(items)


def test_a_shard_reads_and_compares_its_own_bytes_alone(tmp_path: Path) -> None:
    path = corpus(tmp_path / "in") / "a.jsonl"
    files, _ = inventory([str(path)], CONFIG, SMALL)
    raw = path.read_bytes()
    path.write_bytes(raw[:-30] + raw[-30:].replace(b"w", b"W"))
    first, *_, last = shards(files, 3)
    assert len(list(read_shard(first, CONFIG))) > 50
    with pytest.raises(InputError, match="has changed"):
        list(read_shard(last, CONFIG))


def test_a_sample_is_of_the_files_alone_and_of_large_inputs_reads_a_part(tmp_path: Path) -> None:
    root = corpus(tmp_path / "in")
    files, _ = inventory([str(root)], CONFIG, SMALL)
    everything = {item.id: item for item in read(files, 1)[0] if isinstance(item, Document)}

    def look(count: int, most: int, name: str = "out") -> Sample:
        with JsonlWriters(tmp_path / name) as writers:
            return read_sample(files, CONFIG, count, writers, most)

    whole = look(50, 10**9)
    assert whole.complete
    assert [d.id for d in whole.documents] == sorted(everything, key=hash_of)[:50]
    assert whole.counts.rejected() == read(files, 1)[1].rejected()
    part = look(50, 30_000)
    assert not part.complete
    assert part.documents == look(50, 30_000, "again").documents
    assert all(everything[document.id] == document for document in part.documents)
    read_bytes = sum(len(json.dumps(everything[each].text).encode()) for each in everything)
    assert 20_000 < sum(len(d.text.encode()) for d in look(10**6, 30_000).documents) < read_bytes / 2
    assert {d.id.partition(":")[0] for d in part.documents} > {"in/a.jsonl"}


@pytest.fixture
def memory() -> Any:
    """A store in memory, by URI."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/bucket", recursive=True)


def test_inputs_by_uri_give_the_same_documents_as_files(tmp_path: Path, memory: Any) -> None:
    root = corpus(tmp_path / "in")
    for path in root.rglob("*.*"):
        memory.pipe(f"/bucket/in/{path.relative_to(root)}", path.read_bytes())
    memory.pipe("/bucket/in/_old/x.txt", b"old")
    files, skipped = inventory(["memory://bucket/in"], SourceConfig(text_chars=300, skip=("_old",)))
    local, _ = inventory([str(root)], CONFIG)
    assert [(file.label, file.folder, file.size) for file in files] == [(f.label, f.folder, f.size) for f in local]
    assert skipped == ["in/_old/x.txt (a name on its path begins with _)"]
    assert read(files, 3) == read(local, 1)
    cut, _ = inventory(["memory://bucket/in/a.jsonl"], CONFIG, SMALL)
    one, counts = read(cut, 1)
    assert len(cut[0].cuts) > 2
    assert read(cut, 7) == (one, counts)
    assert [getattr(item, "text", "") for item in one] == [
        getattr(item, "text", "") for item in read(inventory([str(root / "a.jsonl")], CONFIG)[0], 1)[0]]
    assert {item.id for item in one if isinstance(item, Document)} == {
        f"a.jsonl@{item.offset}" for item in one if isinstance(item, Document)}
    memory.pipe("/bucket/in/a.jsonl", (root / "a.jsonl").read_bytes()[:-1] + b" ")
    with pytest.raises(InputError, match=r"a\.jsonl has changed since"):
        read(cut, 1)
    memory.rm("/bucket/in/a.jsonl")
    with pytest.raises(InputError, match=r"a\.jsonl is not there any more"):
        read(cut, 1)
    with pytest.raises(InputError, match=r"data\.inputs: memory://bucket/none does not exist"):
        inventory(["memory://bucket/none"], CONFIG)
