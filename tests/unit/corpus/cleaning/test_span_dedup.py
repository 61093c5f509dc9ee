"""Lines, paragraphs, runs of sentences and substrings that repeat, against a search of everything for everything."""

import random
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from argosy.corpus.cleaning.dedup.pieces import LineDedup, ParagraphDedup, SentenceDedup
from argosy.corpus.cleaning.dedup.spans import SpanDeduplicator, without
from argosy.corpus.cleaning.dedup.substring_dedup import SubstringDedup
from argosy.corpus.text.scripts import normalise
from tests.dedup_fixtures import Corpus, books, make, same

Spans = list[tuple[int, int, int]]


def repeated_windows(texts: list[str], length: int, gone: set[int]) -> Spans:
    """What windows cover that stand anywhere before."""
    seen: set[str] = set()
    spans = []
    for number, text in enumerate(texts):
        covered = [False] * len(text)
        for at in range(len(text) if number in gone else 0, len(text) - length + 1):
            if text[at : at + length] in seen:
                covered[at : at + length] = [True] * length
            seen.add(text[at : at + length])
        for flag, places in groupby(range(len(text)), lambda at: covered[at]):  # noqa: B023
            whole = list(places)
            if flag:
                spans.append((number, whole[0], whole[-1] + 1))
    return spans


def brute_force(texts: list[str], length: int) -> tuple[list[int], Spans]:
    """Documents of which nothing would stay, then spans of the others."""
    gone: set[int] = set()
    while True:
        spans = repeated_windows(texts, length, gone)
        more = {number for number, begin, end in spans if end - begin == len(texts[number])}
        if not more:
            return sorted(gone), spans
        gone |= more


def outcome(kind: type[SpanDeduplicator[Any]], texts: list[str], work: Path, **config: Any) -> list[str]:
    """The texts that come out; None of one that goes."""
    found = Corpus(make(kind, **config), texts, 2).select(work)
    kept = [without(text, [(a, b) for at, a, b in found.spans.tolist() if at == number])
            for number, text in enumerate(texts)]
    return [text for number, text in enumerate(kept) if number not in found.documents]


def test_substrings_are_those_of_brute_force(tmp_path: Path) -> None:
    rng, cases = random.Random(1), [(100, books()[::9])]
    for length in (8, 9, 16, 31) * 3:
        pool = ["".join(rng.choice("ab中") for _ in range(rng.randrange(5, 60))) for _ in range(12)]
        cases.append((length, ["".join(rng.choice(pool) + rng.choice("abcdef") * rng.randrange(3)
                                       for _ in range(rng.randrange(1, 9))) for _ in range(rng.randrange(2, 20))]))
    for length, texts in cases:
        gone, spans = brute_force(texts, length)
        assert length < 100 or len(spans) > 100
        for shards, memory in ((1, 100), (3, 0.02), (7, 100)):
            found = Corpus(make(SubstringDedup, length=length, max_share=1), texts, shards).select(tmp_path, memory)
            assert found.documents.tolist() == gone
            assert list(map(tuple, found.spans.tolist())) == spans


def lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+\Z", text)


def paragraphs(text: str) -> list[str]:
    return re.findall(r".+?(?:\n(?:[^\S\n]*(?:\n|\Z))+|\Z)", text, re.DOTALL)


def repeated_pieces(texts: list[str], split: Callable[[str], list[str]], least: int) -> Iterator[tuple[int, int, int]]:
    holder: dict[str, int] = {}
    for number, text in enumerate(texts):
        at = 0
        for piece in split(text):
            form = normalise(piece)
            if len(form) >= least and holder.setdefault(form, number) != number:
                yield number, at, at + len(piece)
            at += len(piece)


@pytest.mark.parametrize(("kind", "split"), [(LineDedup, lines), (ParagraphDedup, paragraphs)])
def test_pieces_are_those_of_brute_force(kind: type[SpanDeduplicator[Any]], split: Callable[[str], list[str]],
                                         tmp_path: Path) -> None:
    texts = [*books()[::2], "", "\n \n", "one\n \n\ntwo", *books()[:4:2]]
    found = Corpus(make(kind, max_share=1), texts).select(tmp_path)
    merged: Spans = []
    for number, begin, end in repeated_pieces(texts, split, 20):
        if merged and merged[-1][0] == number and merged[-1][2] == begin:
            merged[-1] = (number, merged[-1][1], end)
        else:
            merged.append((number, begin, end))
    assert len(merged) > 200
    whole = [number for number, begin, end in merged if end - begin == len(texts[number])]
    assert found.documents.tolist() == whole
    assert list(map(tuple, found.spans.tolist())) == [span for span in merged if span[0] not in whole]


@pytest.mark.parametrize("kind", [LineDedup, ParagraphDedup, SentenceDedup, SubstringDedup])
def test_shards_and_memory_change_nothing(kind: type[SpanDeduplicator[Any]], tmp_path: Path) -> None:
    texts = books()[::6]
    whole = Corpus(make(kind), texts).select(tmp_path)
    assert len(whole.spans) > 20
    assert all(same(whole, Corpus(make(kind), texts, shards).select(tmp_path)) for shards in (2, 7))
    assert same(whole, Corpus(make(kind), texts, 7).select(tmp_path, memory_mb=0.3))


def test_three_sentences_are_removed_and_two_are_not(tmp_path: Path) -> None:
    first = "今天的天气非常好，适合出门走走。我们去了城外的山上看花！你想一起来吗？晚上又下了一场雨。"
    texts = [first, f"完全不同的开头在这里。{first[:35]}结尾也不一样，这里另有一段话。",
             f"{first[:28]}这里没有第三句，所以它留下。"]
    assert outcome(SentenceDedup, texts, tmp_path) == [
        first, "完全不同的开头在这里。结尾也不一样，这里另有一段话。", texts[2]]


def test_a_document_of_little_else_is_dropped_and_its_lines_stay_elsewhere(tmp_path: Path) -> None:
    a, b, c, d = (f"This is line {name}, long enough to count.\n" for name in ("one", "two", "three", "four"))
    # The second is mostly lines of the first; with it gone, the third is the first with its other line.
    texts = [a + b, a + b + c, c + d]
    assert outcome(LineDedup, texts, tmp_path, max_share=0.5) == [a + b, c + d]
    assert outcome(LineDedup, texts, tmp_path, max_share=0.9) == [a + b, c, d]
    assert outcome(LineDedup, texts, tmp_path, min_documents=3) == texts


def test_substrings_of_too_few_documents_stay_in_each_and_once(tmp_path: Path) -> None:
    first, second, third = ("".join(chr(0x4E00 + 40 * row + at) for at in range(30)) for row in range(3))
    texts = [f"{first}1{first}{second}", f"2{first}", f"3{second}{third}", f"4{second}"]
    assert outcome(SubstringDedup, texts, tmp_path, length=30, max_share=1, min_documents=3) == [
        f"{first}1{second}", f"2{first}", f"3{third}", "4"]


def test_a_document_that_repeats_itself_is_a_copy_of_no_other(tmp_path: Path) -> None:
    one = make(SubstringDedup, length=30)
    texts = ["A text of nobody else stands here.\n" * 20, "Another text is here, and is alone."]
    found = Corpus(one, texts).select(tmp_path)
    assert (found.documents.tolist(), found.of.tolist()) == ([0], [0])
    assert one.reasons[found.reasons[0]] == "mostly repeats itself"


@pytest.mark.parametrize("kind", [LineDedup, SubstringDedup])
def test_parts_of_an_earlier_corpus_are_removed(kind: type[SpanDeduplicator[Any]], tmp_path: Path) -> None:
    one = make(kind, **({"length": 30} if kind is SubstringDedup else {}))
    line = "A line that is in the earlier corpus, and long.\n"
    first = Corpus(one, ["Other lines are here too, and nobody has them.\n", f"{line}x\n"], 2)
    first.write_index(tmp_path / "first", first.select(tmp_path / "a"))
    second = Corpus(one, [f"y\n{line}z and more of a text\n", line], 2)
    found = second.select(tmp_path / "b", earlier=[tmp_path / "first"])
    assert found.spans.tolist() == [[0, 2, len(line) + 2]]
    assert found.documents.tolist() == [1]
    assert found.reasons.tolist() == [1]
