"""Cleaned documents as files: what others read in them, the same bytes whatever happens, nothing of the user's lost."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError, StepError
from argosy.core.store import remote
from argosy.corpus.cleaning.export import MANIFEST, MARK, export
from argosy.corpus.cleaning.kept import CUT, KeptCorpus
from argosy.corpus.data.counts import Counts
from argosy.corpus.data.jsonl import read_jsonl
from argosy.corpus.data.listing import list_inputs
from argosy.corpus.data.reading import read_file
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.shards import Format, ShardWriter
from argosy.corpus.data.sources import SourceConfig
from tests.cleaning_fixtures import PROSE, cleaned, make_data
from tests.trees import read_files

ODD = "cafe\u0301"  # NFC has one character
SHARED = "A line of the site that stands on each of its pages, and says nothing new."
DOCUMENTS = [
    Document(f"web:{n}", f"{PROSE} Page {n}.\n{SHARED}\n{ODD if n == 5 else 'end'} {n * n}", ("web", "books")[n % 2],
             "en", f"web:{n}", {"n": n} if n % 3 else {}, n * 100) for n in range(40)
] + [Document("web:40", PROSE + " Page 0.\n" + SHARED + "\nend 0", "web")]  # fmt: skip
FILTERS = ["unicode", "exact_dedup", "line_dedup"]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[int, KeptCorpus]:
    """The same corpus in one shard and in three."""
    found = {}
    for shards in (1, 3):
        root = tmp_path_factory.mktemp(f"shards-{shards}")
        found[shards] = cleaned(root, make_data(root / "data", DOCUMENTS), shards=shards, filters=FILTERS)[1]
    return found


@pytest.mark.parametrize("format", ["parquet", "jsonl", "jsonl.zst"])
def test_the_bytes_are_the_same_however_cleaning_was_shared_out(corpora: dict[int, KeptCorpus], tmp_path: Path,
                                                               format: Format) -> None:
    manifests = [export(corpora[shards], str(tmp_path / name), format, 3000) for name, shards in (("a", 1), ("b", 3))]
    one, other = (read_files(tmp_path / name) for name in "ab")
    assert {name: one[name] for name in one if name != MANIFEST} == {n: other[n] for n in other if n != MANIFEST}
    assert manifests[0] | {"clean": ""} == manifests[1] | {"clean": ""}
    listed = [file for channel in manifests[0]["channels"].values() for file in channel["files"]]
    assert {file["name"]: file["sha256"] for file in listed} == {
        name: hashlib.sha256(data).hexdigest() for name, data in one.items() if name != MANIFEST}
    assert len(listed) == 4
    assert max(file["text_bytes"] for file in listed) <= 3000
    assert sum(file["documents"] for file in listed) == manifests[0]["documents"] == 40  # the copy is gone


def test_it_is_what_cleaning_kept_with_its_provenance(corpora: dict[int, KeptCorpus], tmp_path: Path) -> None:
    export(corpora[3], str(tmp_path / "out"), "jsonl")
    rows = {row["id"]: row for path in (tmp_path / "out").rglob("*.jsonl") for row in read_jsonl(path)}
    assert {name: row["text"] for name, row in rows.items()} == {d.id: d.text for d in corpora[1].documents()}
    assert rows["web:5"]["changed"] == ["unicode", CUT]
    assert sum(SHARED in row["text"] for row in rows.values()) == 1
    assert (rows["web:7"]["offset"], rows["web:7"]["source"], rows["web:7"]["channel"]) == (700, "web:7", "books")
    assert json.loads(rows["web:7"]["metadata"]) == {"n": 7}


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_other_libraries_read_it(corpora: dict[int, KeptCorpus], tmp_path: Path, format: Format) -> None:
    datasets = pytest.importorskip("datasets")
    out = tmp_path / "out"
    export(corpora[1], str(out), format, 3000)
    texts = {document.id: document.text for document in corpora[1].documents()}
    rows = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert dict(zip(rows["id"], rows["text"], strict=True)) == texts
    if format == "parquet":
        readers: Any = pytest.importorskip("datatrove.pipeline.readers")
        read = list(readers.ParquetReader(str(out), glob_pattern="**/*.parquet").run())
        assert {each.id: each.text for each in read} == texts
        assert {each.metadata["channel"] for each in read} == {"web", "books"}


def test_the_data_step_reads_it(corpora: dict[int, KeptCorpus], tmp_path: Path) -> None:
    export(corpora[1], str(tmp_path / "out"), "jsonl.zst", 3000)
    config = SourceConfig()
    listed, others = list_inputs([str(tmp_path / "out")], config, ())
    read = [each for file in listed for each in read_file(file, config, Counts())]
    assert sorted((each.channel, each.text) for each in read if isinstance(each, Document)) == sorted(
        (each.channel, each.text) for each in corpora[1].documents())
    assert not others


def test_an_interrupted_export_leaves_nothing_and_the_next_one_is_whole(
    corpora: dict[int, KeptCorpus], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(self: ShardWriter, document: Document, *_: Any) -> None:
        if document.id == "web:9":
            raise KeyboardInterrupt

    export(corpora[1], str(tmp_path / "whole"), shard_bytes=3000)
    monkeypatch.setattr(ShardWriter, "write", stops)
    with pytest.raises(KeyboardInterrupt):
        export(corpora[1], str(tmp_path / "out"), shard_bytes=3000)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]
    killed, alive = tmp_path / ".out.99999999-ab.tmp", tmp_path / f".out.{os.getppid()}-ab.tmp"
    for path in (killed, alive):
        path.mkdir()
    export(corpora[1], str(tmp_path / "out"), shard_bytes=3000)
    assert read_files(tmp_path / "out") == read_files(tmp_path / "whole")
    assert (killed.exists(), alive.exists()) == (False, True)


def test_nothing_but_an_export_is_replaced(corpora: dict[int, KeptCorpus], tmp_path: Path) -> None:
    out, mine = tmp_path / "out", tmp_path / "mine"
    export(corpora[1], str(out), shard_bytes=3000)
    with pytest.raises(InputError, match="holds an export already: choose another folder, or give --replace"):
        export(corpora[1], str(out))
    export(corpora[1], str(out), "jsonl", replace=True)
    assert set(read_files(out)) == {MANIFEST, "web/documents-00000.jsonl", "books/documents-00000.jsonl"}
    (out / "web" / "notes.txt").write_text("mine")
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine")
    for folder, message in ((out, "no export has written .*notes"), (mine, "is not empty .*thesis.* no export"),
                            (mine / "thesis.txt", "is a file")):
        with pytest.raises(InputError, match=message):
            export(corpora[1], str(folder), replace=True)
    assert (mine / "thesis.txt").read_text() == (out / "web" / "notes.txt").read_text() == "mine"


def test_a_link_stays_one_and_a_mount_point_is_refused_at_once(corpora: dict[int, KeptCorpus], tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    export(corpora[1], str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk" / MANIFEST).is_file()
    (tmp_path / "volume").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "volume")
    with pytest.raises(InputError, match=r"choose a folder below it, such as .*volume/cleaned"):
        export(corpora[1], str(tmp_path / "volume"))


def test_of_a_store_the_manifest_comes_last(corpora: dict[int, KeptCorpus], tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    memory, uri = fsspec.filesystem("memory"), f"memory://{tmp_path.name}/out"
    put = type(memory).put_file
    sent: list[str] = []

    def fails(self: Any, source: str, target: str, **options: Any) -> None:
        if len(sent) == 3:
            raise OSError("the network is away")
        sent.append(target)
        put(self, source, target, **options)

    monkeypatch.setattr(type(memory), "put_file", fails)
    with pytest.raises(StepError, match="cannot be reached"):
        export(corpora[1], uri, shard_bytes=3000)
    assert MANIFEST not in remote.names_at(uri, "x")
    monkeypatch.undo()
    assert len(remote.names_at(uri, "x")) == 3
    export(corpora[1], uri, shard_bytes=3000)
    export(corpora[1], str(tmp_path / "here"), shard_bytes=3000)
    here = read_files(tmp_path / "here")
    assert {name: remote.read_small(f"{uri}/{name}") for name in remote.names_at(uri, "x")} == here | {MARK: b""}
    with pytest.raises(InputError, match="holds an export already"):
        export(corpora[1], uri)
    for name in (MANIFEST, MARK):  # somebody's copy of an export, in files of its own names
        memory.rm_file(f"{tmp_path.name}/out/{name}")
    with pytest.raises(InputError, match=r"is not empty .*, and no export"):
        export(corpora[1], uri)
