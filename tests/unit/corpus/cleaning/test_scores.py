"""Scores and keys of a shard are written a row group at a time: their bytes do not tell in what batches they came."""

from pathlib import Path

import numpy as np
import pytest

from argosy.corpus.cleaning import scored, scores
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.dedup.external import Workspace
from argosy.corpus.cleaning.scored import ScoredCorpus
from argosy.corpus.cleaning.scores import ScoresWriter
from argosy.corpus.cleaning.scoring import Scored
from argosy.corpus.cleaning.shard import ScoredShard
from argosy.corpus.data.schemas import Document

COUNT = 500
VALUES = np.random.default_rng(0).random(COUNT)
BANDS = np.arange(COUNT * 3, dtype=np.uint64).reshape(COUNT, 3)


def written(out: Path, size: int) -> dict[str, bytes]:
    out.mkdir()
    writer = ScoresWriter(out)
    for begin in range(0, COUNT, size):
        at = np.arange(COUNT)[begin : begin + size]
        batch = Batch([Document(str(n), "text", "code" if n > 320 else "web") for n in at])
        changed = {"unicode": at == 400} if 400 in at else {}  # a filter that has changed nothing says nothing
        writer.add(Scored(batch, {"one.score": VALUES[at]}, {"dedup": {"bands": BANDS[at]}}, changed), [4] * len(at))
    writer.close()
    return {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_bytes_are_the_same_in_batches_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "_GROUP", 128)
    found = written(tmp_path / "a", 90)
    assert found == written(tmp_path / "b", 333)
    assert set(found) == {"scores.parquet", "dedup.bands.npy"}
    shard = ScoredShard(tmp_path / "a")
    assert (shard.keys("dedup")["bands"] == BANDS).all()
    twice = ScoredCorpus([shard, shard], Workspace(tmp_path / "work"))
    monkeypatch.setattr(scored, "_ROWS", 300)
    blocks = list(twice.blocks())
    assert [block.first for block in blocks] == [0, 256, 500, 756]
    assert np.concatenate([block.scores["one.score"] for block in blocks]).tolist() == VALUES.tolist() * 2
    assert twice.about.scores["one.score"].tolist() == VALUES.tolist() * 2
