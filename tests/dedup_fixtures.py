"""A corpus of texts through a deduplicator, in any number of shards, and real text to try it on."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.dedup import About, Deduplicator, Duplicates, Workspace
from argosy.corpus.cleaning.filter import Keys, Resources
from argosy.corpus.data.schemas import Document
from argosy.corpus.text.scripts import words
from tests.shared_data import shared


class Corpus:
    """Texts in shards, as score steps leave them, and what is known of them."""

    def __init__(self, one: Deduplicator[Any], texts: Sequence[str], shards: int = 1, channels: Sequence[str] = (),
                 scores: Mapping[str, Sequence[float]] | None = None) -> None:
        self.one = one
        named = list(channels) or ["web"] * len(texts)
        documents = [Document(f"d{at}", text, named[at]) for at, text in enumerate(texts)]
        bounds = [len(texts) * at // shards for at in range(shards + 1)]
        parts = [documents[begin:end] for begin, end in pairwise(bounds)]
        self.keys: list[Keys] = [one.keys(Batch(part)) for part in parts]
        self.ids = [[document.id for document in part] for part in parts]
        names, numbers = np.unique(named, return_inverse=True)
        self.about = About(
            [len(part) for part in parts], numbers, names.tolist(), np.array([len(text) for text in texts]),
            {name: np.array(values, np.float64) for name, values in (scores or {}).items()},
            lambda numbers: [texts[at] for at in numbers])
        self.kept = np.ones(len(texts), np.bool_)

    def select(self, work: Path, memory_mb: float = 1000, earlier: Sequence[Path] = ()) -> Duplicates:
        """Find the copies; what was sorted on disk is gone."""
        found = self.one.select(self.keys, self.kept, self.about, Workspace(work, memory_mb), earlier)
        assert [path for path in work.glob("*") if path.suffix != ".array"] == []
        return found

    def write_index(self, out: Path, found: Duplicates) -> None:
        kept = self.kept.copy()
        kept[found.documents] = False
        self.one.write_index(out, self.keys, kept, self.about, self.ids)


def make(kind: type[Deduplicator[Any]], **config: Any) -> Deduplicator[Any]:
    return kind(kind.config_class.model_validate(config), Resources())


def same(one: Duplicates, two: Duplicates) -> bool:
    names = ("documents", "of", "reasons", "spans")
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in names)


@cache
def books() -> list[str]:
    """Whole chapters: a book in simplified and traditional Chinese and in English, another in Chinese."""
    paths = [path for name in ("zhen_gowebbook", "zh_d2l") for path in sorted(shared(name).glob("*.md"))]
    return [path.read_text(encoding="utf-8") for path in paths]


@cache
def short() -> list[str]:
    """Questions that differ in a number, paragraphs of books, and a set for deduplication: many near copies."""
    questions = json.loads((shared("commonsense_mc") / "dataset__mathqa__test.json").read_text(encoding="utf-8"))
    made = shared("data_juicer_demo") / "demos__data__demo-dataset-deduplication.jsonl"
    paragraphs = [text for book in books() for text in book.split("\n\n") if len(text) > 80]
    return [*(row["instruction"].split("The options")[0] for row in questions), *paragraphs[::7],
            *(json.loads(line)["text"] for line in made.read_text(encoding="utf-8").splitlines())]


def shingles(text: str, size: int = 5) -> frozenset[tuple[str, ...]]:
    tokens = words(text)
    return frozenset(tokens[at : at + size] for at in range(len(tokens) - size + 1))


def like_pairs(texts: Sequence[str], least: float) -> dict[tuple[int, int], float]:
    """Jaccard indices of at least `least`, of all pairs of texts, by an inverted list of all shingles."""
    sets = [shingles(text) for text in texts]
    places: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, grams in enumerate(sets):
        for gram in grams:
            places[gram].append(number)
    common: dict[tuple[int, int], int] = defaultdict(int)
    for numbers in places.values():
        for at, one in enumerate(numbers):
            for two in numbers[at + 1 :]:
                common[one, two] += 1
    indices = {(one, two): both / (len(sets[one]) + len(sets[two]) - both) for (one, two), both in common.items()}
    return {pair: index for pair, index in indices.items() if index >= least}


def roots(count: int, pairs: Mapping[tuple[int, int], float]) -> list[int]:
    """The first document of each one's connected component."""
    root = list(range(count))
    for one, two in sorted(pairs):
        old, new = sorted((root[one], root[two]), reverse=True)
        if old != new:
            root = [new if each == old else each for each in root]
    return root
