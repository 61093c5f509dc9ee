"""Benchmark items as n-grams of words, and which of them a batch of texts holds."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from argosy.cleaning.kernels.overlap import Words

    Integers = npt.NDArray[np.int64]

MATCHES = ("question", "ngram", "edited", "options")  # kinds of matches; their scores are their places from 1
_SHORT, _MIDDLE = 8, 13  # words (twice as many Han characters) of a short question, and of one that needs no mark
_NEAR = 0.85  # share of the words of a question of middle length that edits have left
_LEAST = 4  # words below which a question is nobody's: "2 + 2 = ?"
_COMMON = 10  # items that share an n-gram beyond which it tells nothing (Brown et al. 2020)
_ANCHOR_TARGETS = 64  # targets that share an anchor beyond which it is none
_ANCHOR_SHARE = 0.25  # of a question's anchors must be in a text for it to be aligned
_LABELS = 12  # words besides its options that an item has after its question: labels, "Answer", ...
_OPTIONS = 3  # options that must follow a question which is no proof alone
_ENDS = (".", "。", ":", "：", "_", ")", "）")  # of an order, and of a gap to fill
_ANCHOR, _NGRAM, _OPTION = range(3)


class Match(NamedTuple):
    """An item in a text: the number of the text and of the item, the kind (of MATCHES), and the share of the item's
    question that is there."""

    text: int
    item: int
    kind: str
    overlap: float


class _Postings(NamedTuple):
    """Index of n-grams in targets: by n-gram (sorted hashes) a range of rows of target, place and role."""

    known: "npt.NDArray[np.uint64]"
    offsets: "Integers"
    rows: "Integers"


class ItemIndex:
    """An index of benchmark items.

    Its targets are the items' questions, and then their options.

    Args:
        items: {"question", "choices"}.
        ngram: words of an n-gram that is proof alone; twice as many characters in Chinese.
        similarity: share of a question's words that an edited copy has left."""

    def __init__(self, items: Sequence[Mapping[str, Any]], ngram: int, similarity: float) -> None:
        self._items = items
        self._ngram = ngram
        self._similarity = similarity
        self._owners = [number for number, item in enumerate(items) for _ in item.get("choices") or ()]

    @cached_property
    def _words(self) -> "Words":
        import numpy as np

        from argosy.cleaning.kernels.overlap import split

        questions = [str(item["question"]).strip() for item in self._items]
        texts = [question.rstrip("?？") for question in questions]
        texts += [str(choice) for item in self._items for choice in item.get("choices") or ()]
        starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
        return split(np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32), starts)

    @cached_property
    def _asks(self) -> list[bool]:
        return [str(item["question"]).strip().endswith(("?", "？")) for item in self._items]

    @cached_property
    def _orders(self) -> list[bool]:
        """Tell which items are an order without options ("Compute the sum."), or a gap to fill: they end as a sentence
        does, which the beginning of one ("The artist who painted the Mona Lisa is") does not."""
        return [str(item["question"]).rstrip().endswith(_ENDS) and not item.get("choices") for item in self._items]

    @cached_property
    def _sizes(self) -> "Integers":
        """Words of each target."""
        return self._words.first[1:] - self._words.first[:-1]

    @cached_property
    def _factor(self) -> "Integers":
        """2 of a target that is counted in Han characters, else 1."""
        import numpy as np

        counted = np.concatenate([[0], np.cumsum(self._words.han)])
        shares = (counted[self._words.first[1:]] - counted[self._words.first[:-1]]) / np.maximum(self._sizes, 1)
        return np.where(shares > 0.3, 2, 1)

    @cached_property
    def _shared(self) -> set[int]:
        """Numbers of the items whose question is another item's too: it is no proof."""
        import numpy as np

        from argosy.cleaning.kernels.overlap import grams, powers

        count = len(self._items)
        whole = grams(self._words.prefix, self._words.first[:count], self._sizes[:count], powers(self._sizes[:count]))
        _, inverse, times = np.unique(whole, return_inverse=True, return_counts=True)
        options = [tuple(map(str, item.get("choices") or ())) for item in self._items]
        alike: dict[int, set[tuple[str, ...]]] = {}
        for number, group in enumerate(inverse.tolist()):
            if times[group] > 1:
                alike.setdefault(group, set()).add(tuple(sorted(options[number])))
        return {number for number, group in enumerate(inverse.tolist()) if len(alike.get(group, ())) > 1}

    def _anchor_sizes(self) -> "Integers":
        """Words of the n-grams that a question is recognised by: fewer of a short one."""
        import numpy as np

        count = len(self._items)
        sizes, factor = self._sizes[:count], self._factor[:count]
        return np.where(factor == 2, np.where(sizes < 2 * _SHORT, 4, 6), np.where(sizes < _SHORT, 3, 4))

    @cached_property
    def _postings(self) -> _Postings:
        """Make the n-grams of all targets: anchors of questions, n-grams that are proof, beginnings of options."""
        import numpy as np

        count, sizes, factor = len(self._items), self._sizes, self._factor
        long_enough = sizes[:count] >= _LEAST
        parts = [self._grams(np.flatnonzero(long_enough), self._anchor_sizes()[long_enough], _ANCHOR)]
        long = np.flatnonzero(sizes[:count] >= self._ngram * factor[:count])
        parts.append(self._grams(long, self._ngram * factor[long], _NGRAM))
        options = np.flatnonzero(sizes[count:] >= _LEAST * factor[count:]) + count
        # Of n-grams that begin with another word than a Han character, those of six words are looked up in Chinese too.
        begun = np.where(self._words.han[self._words.first[options]], _LEAST * factor[options], 6)
        parts.append(self._grams(options, np.where(factor[options] == 2, begun, _LEAST), _OPTION))
        hashes = np.concatenate([hashes for hashes, _ in parts])
        rows = np.concatenate([rows for _, rows in parts])
        order = np.argsort(hashes, kind="stable")
        hashes, rows = hashes[order], rows[order]
        keep = self._telling(hashes, rows)
        known, first = np.unique(hashes[keep], return_index=True)
        return _Postings(known, np.append(first, keep.sum()).astype(np.int64), rows[keep])

    def _telling(self, hashes: "npt.NDArray[np.uint64]", rows: "Integers") -> "npt.NDArray[np.bool_]":
        """Tell which postings are of n-grams that few targets have."""
        import numpy as np

        grams = hashes ^ rows[:, 2].astype(np.uint64)
        inside = np.unique(grams * np.uint64(0x9E3779B97F4A7C15) + rows[:, 0].astype(np.uint64), return_index=True)[1]
        values, times = np.unique(grams[inside], return_counts=True)
        often = times[np.searchsorted(values, grams)]
        telling: npt.NDArray[np.bool_] = often <= np.where(rows[:, 2] == _ANCHOR, _ANCHOR_TARGETS, _COMMON)
        return telling

    def _grams(self, targets: "Integers", sizes: "Integers", role: int) -> tuple["npt.NDArray[np.uint64]", "Integers"]:
        """Return hashes and rows (target, place, role) of n-grams of targets; of options the first alone."""
        import numpy as np

        from argosy.cleaning.kernels.overlap import grams, powers

        each = np.ones_like(targets) if role == _OPTION else np.maximum(self._sizes[targets] - sizes + 1, 0)
        owners = np.repeat(np.arange(len(targets)), each)
        offsets = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        at = self._words.first[targets][owners] + offsets
        distinct, which = np.unique(sizes, return_inverse=True)
        hashes = grams(self._words.prefix, at, sizes[owners], powers(distinct)[which][owners])
        return hashes, np.stack([targets[owners], offsets, np.full(len(at), role)], axis=1).astype(np.int64)

    @cached_property
    def _filter(self) -> "npt.NDArray[np.uint64]":
        from argosy.cleaning.kernels.overlap import bloom

        words: npt.NDArray[np.uint64] = bloom(self._postings.known)
        return words

    def find(self, points: "npt.NDArray[np.uint32]", starts: "Integers") -> list[Match]:
        """List the items that are in texts (as `Batch.points` and `Batch.starts`), the best of each text first."""
        import numpy as np

        from argosy.cleaning.kernels.overlap import bounded, lookup, powers, split

        words, postings = split(points, starts), self._postings
        spaced, han = {3, 4, 6, self._ngram}, {4, 6, 2 * _LEAST, 2 * self._ngram}  # by their first word
        sizes = np.array(sorted(spaced | han), np.int64)
        of_han = np.array([-1 if size in spaced & han else int(size in han) for size in sizes.tolist()], np.int64)
        hits = lookup(words.prefix, words.first, words.han, sizes, powers(sizes), of_han, postings.known, self._filter)
        hits = bounded(hits, words.first)
        each = postings.offsets[hits[:, 1] + 1] - postings.offsets[hits[:, 1]]
        within = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        rows = postings.rows[np.repeat(postings.offsets[hits[:, 1]], each) + within]
        places = np.repeat(hits[:, 0], each)
        texts = np.searchsorted(words.first, places, side="right") - 1
        roles = rows[:, 2]
        found = [*self._by_ngrams(texts[roles == _NGRAM], rows[roles == _NGRAM]),
                 *self._by_alignment(words, *(part[roles == _ANCHOR] for part in (texts, places, rows))),
                 *self._by_options(words, *(part[roles == _OPTION] for part in (texts, places, rows)))]
        return sorted(found, key=lambda match: (match.text, -match.overlap, MATCHES.index(match.kind), match.item))

    def _by_ngrams(self, texts: "Integers", rows: "Integers") -> list[Match]:
        """List items of which a text has n-grams that are proof, with the share of them."""
        import numpy as np

        triples = np.unique(np.stack([texts, rows[:, 0], rows[:, 1]], axis=1), axis=0)
        pairs, counts = np.unique(triples[:, :2], axis=0, return_counts=True)
        sizes, factor = self._sizes, self._factor
        return [Match(text, item, "ngram", count / int(sizes[item] - self._ngram * factor[item] + 1))
                for (text, item), count in zip(pairs.tolist(), counts.tolist(), strict=True)]

    def _by_alignment(self, words: "Words", texts: "Integers", places: "Integers", rows: "Integers") -> list[Match]:
        """List items whose question is in a text, with at most some edits."""
        import numpy as np

        from argosy.cleaning.kernels.overlap import likely_first, verify

        count = len(self._items)
        anchors = np.maximum(self._sizes[:count] - self._anchor_sizes() + 1, 1)
        least = np.maximum(1, np.floor(_ANCHOR_SHARE * anchors)).astype(np.int64)
        starts, targets = places - rows[:, 1], rows[:, 0]
        order = likely_first(texts, targets, starts)
        aligned = verify(texts[order], targets[order], starts[order], words.hashes, words.first,
                         self._words.hashes, self._words.first, least, self._similarity)
        matches = (self._judged(words, *row) for row in aligned.tolist())
        return [match for match in matches if match]

    def _judged(self, words: "Words", text: int, item: int, edits: int, begin: int, end: int) -> Match | None:
        """Decide whether a question that stands in a text is proof: how long it is, and what is around it."""
        size, factor = int(self._sizes[item]), int(self._factor[item])
        overlap = 1 - edits / size
        kind = "edited" if edits else "question"
        marked = self._asks[item] and end < words.first[text + 1] and bool(words.asks[end])
        if size < 2 * _SHORT and factor == 2 and not self._begins(words, text, begin):
            return None
        # One word of a short question may be another question's: the creation of the C or of the Python language.
        near = size >= 2 * _MIDDLE * factor or (size >= _MIDDLE * factor and overlap >= _NEAR)
        whole = marked or size >= _MIDDLE * factor or (size >= _SHORT * factor and self._orders[item])
        if item not in self._shared and (near or (not edits and whole)):
            return Match(text, item, kind, overlap)
        return Match(text, item, "options", overlap) if self._options_follow(words, text, item, end) else None

    def _begins(self, words: "Words", text: int, begin: int) -> bool:
        """Whether a Chinese sentence can begin with this word: no Han character is before it, but 请问 (may I ask)."""
        first = int(words.first[text])
        if begin <= first or not words.han[begin - 1] or words.starts[begin - 1] + 1 < words.starts[begin]:
            return True
        return begin - 2 >= first and tuple(words.hashes[begin - 2 : begin].tolist()) in self._lead_ins

    @cached_property
    def _lead_ins(self) -> set[tuple[int, ...]]:
        import numpy as np

        from argosy.cleaning.kernels.overlap import split

        texts = ("请问", "试问")
        points = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
        return {tuple(pair) for pair in split(points, np.array([0, 2, 4])).hashes.reshape(2, 2).tolist()}

    def _options_follow(self, words: "Words", text: int, item: int, end: int) -> bool:
        """Whether enough of the item's options stand soon after its question, in any order."""
        options = [target for target in self._options_of(item) if self._sizes[target]]
        known = self._words
        window = sum(int(self._sizes[target]) for target in options) + _LABELS
        after = words.hashes[end : min(end + window, int(words.first[text + 1]))].tobytes()
        there = {known.hashes[known.first[target] : known.first[target + 1]].tobytes() for target in options}
        return bool(there) and sum(_holds(after, option) for option in there) >= min(_OPTIONS, len(there))

    def _options_of(self, item: int) -> range:
        """Return the targets that are the item's options."""
        begin = len(self._items) + self._first_option[item]
        return range(begin, begin + len(self._items[item].get("choices") or ()))

    @cached_property
    def _first_option(self) -> list[int]:
        from itertools import accumulate

        return list(accumulate((len(item.get("choices") or ()) for item in self._items), initial=0))

    def _by_options(self, words: "Words", texts: "Integers", places: "Integers", rows: "Integers") -> list[Match]:
        """List items of which a text has enough long options, in any order and whatever became of the question."""
        import numpy as np

        from argosy.cleaning.kernels.overlap import same

        there = same(places, rows[:, 0], words.hashes, words.first, texts, self._words.hashes, self._words.first)
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
