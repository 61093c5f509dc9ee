"""MinHash against brute force over all shingles, on real text, at both sides of the threshold."""

import random
from pathlib import Path

import numpy as np

from argosy.corpus.cleaning.dedup.near_dedup import NearDedup
from argosy.corpus.text.scripts import words
from benchmarks.cleaning import deduplicated
from tests.datatrove_peer import deduplicated_by_peer
from tests.dedup_fixtures import Corpus, books, like_pairs, make, roots, same, shingles, short
from tests.processes import run_python


def edited(text: str, share: float, rng: random.Random) -> str:
    """The text with a share of its words changed, each into another of its words."""
    tokens = list(words(text))
    for at in rng.sample(range(len(tokens)), int(share * len(tokens))):
        tokens[at] = rng.choice(tokens)
    return " ".join(tokens)


def test_near_copies_of_short_texts_are_those_of_brute_force(tmp_path: Path) -> None:
    texts = short()
    corpus = Corpus(make(NearDedup), texts)
    found = set(corpus.select(tmp_path).documents.tolist())
    pairs = like_pairs(texts, 0.7)
    copies = {at for at, root in enumerate(roots(len(texts), {k: v for k, v in pairs.items() if v >= 0.75}))
              if root != at}
    assert len(copies) > 150
    assert len(found & copies) / len(copies) >= 0.98
    assert len(found & copies) / len(found) >= 0.98


def test_near_copies_of_long_texts_are_told_apart_at_both_sides_of_the_threshold(tmp_path: Path) -> None:
    rng = random.Random(4)
    long = [text for text in books() if len(words(text)) > 1500][:120]
    others = [edited(text, rng.uniform(0, 0.08), rng) for text in long]
    found = Corpus(make(NearDedup), [*long, *others]).select(tmp_path)
    gone = {at - len(long) for at in found.documents.tolist()}
    index = [len(shingles(a) & shingles(b)) / len(shingles(a) | shingles(b)) for a, b in zip(long, others, strict=True)]
    copies = {at for at, value in enumerate(index) if value >= 0.75 + 0.04}
    different = {at for at, value in enumerate(index) if value < 0.75 - 0.04}
    assert min(len(copies), len(different)) > 20
    assert len(gone & copies) / len(copies) >= 0.98
    assert len(gone & different) / len(different) <= 0.02
    assert all(found.of[found.documents == at + len(long)].tolist() == [at] for at in gone)


def test_shards_and_memory_change_nothing(tmp_path: Path) -> None:
    texts = short()[:1500]
    whole = Corpus(make(NearDedup), texts).select(tmp_path)
    assert len(whole.documents) > 20
    assert all(same(whole, Corpus(make(NearDedup), texts, shards).select(tmp_path)) for shards in (2, 7))
    assert same(whole, Corpus(make(NearDedup), texts, 7).select(tmp_path, memory_mb=0.05))


def test_there_may_be_more_shards_than_files_may_be_open(tmp_path: Path) -> None:
    for number in range(200):
        np.save(tmp_path / f"{number:05}.bands.npy", np.full(3, number))
    script = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from pathlib import Path
from argosy.corpus.cleaning.dedup.index import KeyFiles
parts = [KeyFiles(Path({str(tmp_path)!r}), f"{{number:05}}.") for number in range(200)]
print([sum(int(part["bands"].sum()) for part in parts) for _ in range(2)])
"""
    done = run_python("-c", script)
    assert done.stdout == "[59700, 59700]\n", done.stderr


def test_documents_of_fewer_shingles_than_a_sketch_are_compared_exactly(tmp_path: Path) -> None:
    texts = []
    for pair in range(60):  # by turns 412 of 548 words are both's, and 411 of 549: at both sides of 0.75
        changed = 68 + pair % 2
        tokens = [f"w{pair}x{at}" for at in range(480 + changed)]
        texts += [" ".join(tokens[:480]), " ".join(tokens[changed:])]
    found = Corpus(make(NearDedup, shingle=1, bands=60, rows=3), texts).select(tmp_path)
    assert found.documents.tolist() == list(range(1, 120, 4))


def test_datatrove_keeps_as_many(tmp_path: Path) -> None:
    """Where texts are nearly equal or nothing alike, so that no chance decides."""
    long = [text for text in books() if len(words(text)) > 600][:40]
    texts = [*long, *(f"{text} One sentence more at the end." for text in long[::3])]
    assert len(deduplicated(texts, tmp_path)) == len(long) == len(deduplicated_by_peer(texts, tmp_path))
