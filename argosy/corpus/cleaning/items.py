"""Benchmark items that a batch of texts holds."""

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from argosy.core.lazy import Flags, Integers, Points, np
from argosy.corpus.cleaning.targets import ANCHOR, LEAST, NGRAM, OPTION, SHORT, Targets, split_words
from argosy.corpus.text.figures import inner_figures

if TYPE_CHECKING:
    from argosy.corpus.cleaning.kernels.filters.decontamination import Words

MATCHES = ("question", "ngram", "edited", "options")  # kinds of matches; their scores are their places from 1
_MIDDLE = 13  # words (twice as many Han characters) of a question that needs no mark
_NEAR = 0.85  # share of the words of a question of middle length that edits have left
_ANCHOR_SHARE = 0.25  # of a question's anchors must be in a text for it to be aligned
_LABELS = 12  # words besides its options that an item has after its question: labels, "Answer", ...
_OPTIONS = 3  # options that must follow a question which is no proof alone
_MOST_TIMES = 1000  # times that a text has an n-gram: of more the first are looked at


class Match(NamedTuple):
    """An item in a text: the number of the text and of the item, the kind (of MATCHES), and the share of the item's
    question that is there."""

    text: int
    item: int
    kind: str
    overlap: float


class ItemIndex(Targets):
    """An index of benchmark items."""

    def find(self, points: Points, starts: Integers) -> list[Match]:
        """List the items that are in texts (as `Batch.points` and `Batch.starts`), the best of each text first."""
        from argosy.corpus.cleaning.kernels.filters.decontamination import lookup, powers, split

        words, postings = split(points, starts), self._postings
        spaced, han = {3, 4, 6, self._ngram}, {4, 6, 2 * LEAST, 2 * self._ngram}  # by their first word
        sizes = np.array(sorted(spaced | han), np.int64)
        of_han = np.array([-1 if size in spaced & han else int(size in han) for size in sizes.tolist()], np.int64)
        hits = lookup(words, sizes, powers(sizes), of_han, postings.known, self._filter)
        hits = bounded(hits, words.first)
        each = postings.offsets[hits[:, 1] + 1] - postings.offsets[hits[:, 1]]
        within = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        rows = postings.rows[np.repeat(postings.offsets[hits[:, 1]], each) + within]
        places = np.repeat(hits[:, 0], each)
        texts = np.searchsorted(words.first, places, side="right") - 1
        roles = rows[:, 2]
        found = [*self._by_ngrams(points, words, *(part[roles == NGRAM] for part in (texts, places, rows))),
                 *self._by_alignment(points, words, *(part[roles == ANCHOR] for part in (texts, places, rows))),
                 *self._by_options(words, *(part[roles == OPTION] for part in (texts, places, rows)))]
        return sorted(found, key=lambda match: (match.text, -match.overlap, MATCHES.index(match.kind), match.item))

    def _by_ngrams(self, points: Points, words: "Words", texts: Integers, places: Integers,
                   rows: Integers) -> list[Match]:
        """List items of which a text has n-grams that are proof, with the share of them: but another sum in the words
        of a question that is short, and most of which they are."""
        own = self._of_own_figures(points, words, texts, places - rows[:, 1], rows[:, 0])
        texts, rows = texts[own], rows[own]
        triples = np.unique(np.stack([texts, rows[:, 0], rows[:, 1]], axis=1), axis=0)
        pairs, counts = np.unique(triples[:, :2], axis=0, return_counts=True)
        sizes, factor = self._sizes, self._factor
        return [Match(text, item, "ngram", count / int(sizes[item] - self._ngram * factor[item] + 1))
                for (text, item), count in zip(pairs.tolist(), counts.tolist(), strict=True)]

    def _of_own_figures(self, points: Points, words: "Words", texts: Integers, begins: Integers,
                        items: Integers) -> Flags:
        """Tell at which places where a question would begin no other sum is."""
        own = np.ones(len(texts), np.bool_)
        short = self._sizes[items] < 2 * _MIDDLE * self._factor[items]
        for at in np.flatnonzero(short).tolist():
            item, text = int(items[at]), int(texts[at])
            begin, end = max(int(begins[at]), int(words.first[text])), int(words.first[text + 1])
            end = min(int(begins[at] + self._sizes[item]), end)
            own[at] = not (self._figures[item] and self._other_sum(points, words, item, begin, end))
        return own

    def _by_alignment(self, points: Points, words: "Words", texts: Integers, places: Integers,
                      rows: Integers) -> list[Match]:
        """List items whose question is in a text, with at most some edits."""
        from argosy.corpus.cleaning.kernels.filters.decontamination import verify

        count = len(self._items)
        anchors = np.maximum(self._sizes[:count] - self._anchor_sizes() + 1, 1)
        least = np.maximum(1, np.floor(_ANCHOR_SHARE * anchors)).astype(np.int64)
        starts, targets = places - rows[:, 1], rows[:, 0]
        order = likely_first(texts, targets, starts)
        shared = np.stack([texts, targets, starts], axis=1)[order]
        aligned = verify(shared, words, self._words, least, self._similarity)
        matches = (self._judged(points, words, row) for row in aligned.tolist())
        return [match for match in matches if match]

    def _judged(self, points: Points, words: "Words", row: list[int]) -> Match | None:
        """Decide whether a question that stands in a text is proof: how long it is, and what is around it."""
        text, item, edits, begin, end = row
        size, factor = int(self._sizes[item]), int(self._factor[item])
        overlap = 1 - edits / size
        kind = "edited" if edits else "question"
        marked = self._asks[item] and end < words.first[text + 1] and bool(words.asks[end])
        if size < 2 * SHORT and factor == 2 and not self._begins(words, text, begin):
            return None
        # One word of a short question may be another question's: the creation of the C or of the Python language. So
        # may a number or a sign: 12 + 4, 12 - 4.
        near = size >= _MIDDLE * factor and overlap >= _NEAR
        whole = marked or size >= _MIDDLE * factor or (size >= SHORT * factor and self._orders[item])
        there = max(end, min(begin + size, int(words.first[text + 1])))  # a last number may be taken for left out
        proof = size >= 2 * _MIDDLE * factor or ((near or (not edits and whole))
                                                 and not self._other_sum(points, words, item, begin, there, edits > 0))
        if item not in self._shared and proof:
            return Match(text, item, kind, overlap)
        return Match(text, item, "options", overlap) if self._options_follow(words, text, item, end) else None

    def _other_sum(self, points: Points, words: "Words", item: int, begin: int, end: int, edited: bool = True) -> bool:
        """Tell whether the words from `begin` to `end` have other figures than a question: of edited ones as many, as
        edits that leave a number out or write it twice make no other sum."""
        last = int(words.starts[end]) if end < len(words.starts) else len(points)
        there = inner_figures(points[int(words.starts[begin]) : last].tobytes().decode("utf-32-le", "replace"))
        own = self._figures[item]
        return there != own and (not edited or len(there) == len(own))

    def _begins(self, words: "Words", text: int, begin: int) -> bool:
        """Whether a Chinese sentence can begin with this word: no Han character is before it, but 请问 (may I ask)."""
        first = int(words.first[text])
        if begin <= first or not words.han[begin - 1] or words.starts[begin - 1] + 1 < words.starts[begin]:
            return True
        return begin - 2 >= first and tuple(words.hashes[begin - 2 : begin].tolist()) in self._lead_ins

    @cached_property
    def _lead_ins(self) -> set[tuple[int, ...]]:
        return {tuple(pair) for pair in split_words(["请问", "试问"]).hashes.reshape(2, 2).tolist()}

    def _options_follow(self, words: "Words", text: int, item: int, end: int) -> bool:
        """Whether enough of the item's options stand soon after its question, in any order."""
        options = [target for target in self._options_of(item) if self._sizes[target]]
        window = sum(int(self._sizes[target]) for target in options) + _LABELS
        after = words.hashes[end : min(end + window, int(words.first[text + 1]))].tobytes()
        known, first = self._words.hashes, self._words.first
        there = {known[slice(*first[target : target + 2])].tobytes() for target in options}
        return bool(there) and sum(_holds(after, option) for option in there) >= min(_OPTIONS, len(there))

    def _by_options(self, words: "Words", texts: Integers, places: Integers, rows: Integers) -> list[Match]:
        """List items of which a text has enough long options, in any order and whatever became of the question."""
        from argosy.corpus.cleaning.kernels.filters.decontamination import same

        there = same(places, rows[:, 0], texts, words, self._words)
        items = np.array(self._owners, np.int64)[rows[there, 0] - len(self._items)]
        options = np.unique(np.stack([texts[there], items, rows[there, 0]], axis=1), axis=0)
        pairs, counts = np.unique(options[:, :2], axis=0, return_counts=True)
        return [Match(text, item, "options", count / len(self._options_of(item)))
                for (text, item), count in zip(pairs.tolist(), counts.tolist(), strict=True) if count >= _OPTIONS]


def _holds(words: bytes, piece: bytes) -> bool:
    """Whether hashes of words, eight bytes each, hold a piece of them."""
    at = words.find(piece)
    while at >= 0 and at % 8:
        at = words.find(piece, at + 1)
    return at >= 0


def bounded(hits: Integers, first: Integers) -> Integers:
    """Leave out of `lookup`'s answer what a text has of an n-gram beyond _MOST_TIMES: a page that says four words of
    sixty questions a million times would not fit into memory, and tells nothing."""
    if len(hits) <= _MOST_TIMES:
        return hits
    texts = np.searchsorted(first, hits[:, 0], side="right") - 1
    order = np.lexsort((texts, hits[:, 1]))  # stable: places are in order
    begins = np.flatnonzero(np.r_[True, (np.diff(hits[order, 1]) != 0) | (np.diff(texts[order]) != 0)])
    times = np.arange(len(hits)) - np.repeat(begins, np.diff(np.append(begins, len(hits))))
    return hits[np.sort(order[times < _MOST_TIMES])]


def likely_first(texts: Integers, targets: Integers, starts: Integers) -> Integers:
    """Return the order in which shared n-grams are looked at: by text and target, and then those first of which most
    say that the target begins there, as of a copy nearly all do and of a phrase that a page repeats two or three."""
    if not len(texts):
        return np.zeros(0, np.int64)
    order = np.lexsort((starts, targets, texts))
    begins = np.r_[True, np.diff(np.stack([texts, targets, starts])[:, order]).any(axis=0)]
    group = np.cumsum(begins) - 1
    times = np.empty(len(texts), np.int64)
    times[order] = np.bincount(group)[group]
    return np.lexsort((starts, -times, targets, texts))
