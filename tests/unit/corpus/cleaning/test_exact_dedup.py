"""Copies by the normal form; which of them stays; indexes of earlier corpora; sorting on disk."""

import random
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from argosy.core.errors import InputError
from argosy.corpus.cleaning.dedup.exact_dedup import ExactDedup, ExactDedupConfig
from argosy.corpus.cleaning.dedup.external import Sorter, Workspace
from argosy.corpus.cleaning.dedup.near_dedup import NearDedup
from argosy.corpus.cleaning.kernels.dedup.exact_dedup import normal_hashes
from argosy.corpus.cleaning.kernels.dedup.hashing import hash128
from argosy.corpus.text.scripts import normalise, unified
from tests.cleaning_fixtures import CHINESE, PROSE
from tests.dedup_fixtures import Corpus, make, same


def coded(texts: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.cumsum([len(text) for text in texts])
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    return points, np.concatenate([[0], ends[:-1]]), ends


def test_hashes_are_of_the_normal_form_whatever_the_character() -> None:
    rng = random.Random(1)
    kinds = (0x250, 0x3000, 0xD800, 0x30000)
    texts = ["".join(chr(rng.randrange(rng.choice(kinds))) for _ in range(rng.randrange(1, 7))) for _ in range(4000)]
    texts += [f"a{chr(code)}-{chr(code)}b" for code in range(0, 0x11000, 3)]
    texts += ["ﷺ ß İ Σας", "e\u0301", unicodedata.normalize("NFD", "Việt Nam é 한국"), "\udc00x", "\U0010ffff a"]
    texts += ["".join(rng.choice(" \t\n\r\u2000\u3000ab+") for _ in range(12)) for _ in range(2000)]
    texts += [PROSE, CHINESE]
    for words, form in ((True, normalise), (False, unified)):
        normal = [form(text) for text in texts]
        hashes, counts = normal_hashes(*coded(texts), np.full(len(texts), words))
        assert np.array_equal(hashes, hash128(*coded([own or unified(text) for own, text in zip(normal, texts,
                                                                                               strict=True)])))
        assert counts.tolist() == [len(own) for own in normal]


def test_hashes_are_murmurs() -> None:
    # The published vector of MurmurHash3 x64 128 for an empty text, and that four bytes of zero are something else.
    assert hash128(*coded([""])).tolist() == [[0, 0]]
    assert hash128(*coded(["\0"])).tolist() == [[0xCFA0F7DDD84C76BC, 0x589623161CF526F1]]
    hashes = hash128(*coded(["a" * size for size in range(2000)]))
    assert len(np.unique(hashes[:, 0])) == len(np.unique(hashes[:, 1])) == 2000


def test_copies_by_words_differ_at_most_in_case_width_and_punctuation(tmp_path: Path) -> None:
    texts = [PROSE, PROSE.upper().replace(",", " ，") + "\n", PROSE + " And more.", "***", "+++", "*** \n"]
    found = Corpus(make(ExactDedup, normalise="words"), texts).select(tmp_path)
    assert dict(zip(found.documents.tolist(), found.of.tolist(), strict=True)) == {1: 0, 5: 3}
    assert [values.tolist() for values in found.clusters()] == [[0, 3], [1, 1]]


@pytest.mark.parametrize("config", [{}, {"normalise": "words", "code_channels": ["web"]}])
def test_a_sign_a_case_or_an_indentation_makes_no_copy(config: dict[str, object], tmp_path: Path) -> None:
    texts = ["12 + 4", "12 - 4", "i++;", "i--;", "a < b", "a > b", "x²", "x2", "US", "us", "if a:\n    b\n    c",
             "if a:\n    b\nc", "caf\u00e9"]
    copies = [" 12  + 4\n", "if a: \r\n    b\n\n    c", "cafe\u0301"]
    found = Corpus(make(ExactDedup, **config), [*texts, *copies]).select(tmp_path)
    assert dict(zip(found.documents.tolist(), found.of.tolist(), strict=True)) == {13: 0, 14: 10, 15: 12}


def test_near_copies_of_code_have_its_signs_and_those_of_prose_its_words(tmp_path: Path) -> None:
    loops = [f"for (i = a; i {than} b; i{step}) total {sign} price[i];" for than, step, sign in (
        ("<", "++", "+="), (">", "--", "-="))]
    for channels, dropped in ((["code", "code"], []), (["web", "web"], [1])):
        assert Corpus(make(NearDedup), loops, 1, channels).select(tmp_path).documents.tolist() == dropped


@pytest.mark.parametrize(("config", "stays"), [
    ({}, 0), ({"keep": "longest"}, 2), ({"keep": "best", "score": "quality.score"}, 3),
    ({"priorities": ["knowledge", "web"]}, 1), ({"priorities": ["knowledge", "web"], "keep": "longest"}, 4),
    ({"skip_channels": ["web"]}, 1)])
def test_one_copy_stays(config: dict[str, object], stays: int, tmp_path: Path) -> None:
    texts = ["a b", "a b", "a  \t    b ", "a b", " a b "]
    channels = ["web", "knowledge", "web", "web", "knowledge"]
    scores = {"quality.score": [0.5, float("nan"), 0.1, 0.9, 0.9]}
    for shards in (1, 3):
        found = Corpus(make(ExactDedup, **config), texts, shards, channels, scores).select(tmp_path)
        assert set(found.of.tolist()) == {stays}
        looked_at = {1, 4} if "skip_channels" in config else {0, 1, 2, 3, 4}
        assert found.documents.tolist() == sorted(looked_at - {stays})


def test_what_rules_have_dropped_is_nobodys_original(tmp_path: Path) -> None:
    corpus = Corpus(make(ExactDedup), ["a b"] * 3)
    corpus.kept[0] = False
    assert corpus.select(tmp_path).documents.tolist() == [2]


def test_the_best_by_no_score_and_by_an_unknown_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"score is '' with keep 'best': name a score"):
        ExactDedupConfig(keep="best")
    with pytest.raises(InputError, match=r"exact_dedup\.score is 'x\.y', allowed: quality\.score"):
        Corpus(make(ExactDedup, keep="best", score="x.y"), ["a"], 1, (), {"quality.score": [1]}).select(tmp_path)


@pytest.mark.parametrize("kind", [ExactDedup, NearDedup])
def test_documents_of_an_earlier_corpus_go_with_its_name(kind: type, tmp_path: Path) -> None:
    one, many = make(kind), PROSE + " And more of it."
    first = Corpus(one, ["Nothing like the others, and long enough to have shingles", many, many, f" {PROSE}\n"], 2)
    first.write_index(tmp_path / "first", first.select(tmp_path / "a"))
    second = Corpus(one, [PROSE, CHINESE, CHINESE, many], 2)
    earlier = [tmp_path / "first"]
    found = second.select(tmp_path / "b", earlier=earlier)
    assert found.documents.tolist() == [0, 2, 3]
    assert [one.reasons[number] for number in found.reasons] == [one.reasons[1], one.reasons[0], one.reasons[1]]
    assert found.of[1] == 1
    names = {named.of: (named.corpus, named.id) for named in one.earlier_documents(found, earlier)}
    originals = ["d3", "d1"] if kind is ExactDedup else ["d1", "d1"]
    assert [names[of] for of in found.of.tolist() if of < 0] == [(0, original) for original in originals]
    second.write_index(tmp_path / "second", found)
    third = Corpus(one, [CHINESE, PROSE]).select(tmp_path / "c", earlier=[tmp_path / "second", *earlier])
    assert third.documents.tolist() == [0, 1]


def test_an_index_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    one = Corpus(make(NearDedup), [PROSE])
    one.write_index(tmp_path, one.select(tmp_path / "work"))
    with pytest.raises(InputError, match=r"no index of exact_dedup \(it has: near_dedup\)"):
        Corpus(make(ExactDedup), [PROSE]).select(tmp_path / "work", earlier=[tmp_path])
    with pytest.raises(InputError, match=r"'bands': 20.*now it is .*'bands': 10.*: set the same"):
        Corpus(make(NearDedup, bands=10), [PROSE]).select(tmp_path / "work", earlier=[tmp_path])


def test_shards_and_memory_change_nothing(tmp_path: Path) -> None:
    rng = random.Random(1)
    texts = [f"text {rng.randrange(3000)} {'!' * rng.randrange(3)}" for _ in range(5000)]
    first = dict(zip(reversed([normalise(text) for text in texts]), reversed(range(5000)), strict=True))
    whole = Corpus(make(ExactDedup, normalise="words"), texts).select(tmp_path)
    copies = {at: first[normalise(text)] for at, text in enumerate(texts) if first[normalise(text)] != at}
    assert dict(zip(whole.documents.tolist(), whole.of.tolist(), strict=True)) == copies
    for shards, memory in ((2, 1000), (7, 1000), (7, 0.01)):
        assert same(whole, Corpus(make(ExactDedup, normalise="words"), texts, shards).select(tmp_path, memory))


def test_records_are_sorted_on_disk_as_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2**64, 20_000, np.uint64) >> np.uint64(3)
    records = np.column_stack([keys, np.arange(20_000, dtype=np.uint64)])
    records[::5, 0] = 12  # one key is more than fits into memory
    expected = records[np.argsort(records[:, 0], kind="stable")]
    for memory in (100, 0.1, 0.004):
        sorter = Sorter(Workspace(tmp_path / str(memory), memory), "records", 2, len(records))
        for at in range(0, len(records), 3000):
            sorter.add(records[at : at + 3000])
        blocks = list(sorter.blocks())
        assert np.array_equal(np.concatenate(blocks), expected)
        found = [set(block[:, 0].tolist()) for block in blocks]
        assert sum(map(len, found)) == len(set().union(*found))
        sorter.close()
        assert list((tmp_path / str(memory)).glob("*")) == []
