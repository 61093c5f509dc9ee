"""Benchmark items as n-grams of words: what is looked for of each, and what it is told apart by."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from argosy.core.lazy import Flags, Hashes, Integers, np
from argosy.corpus.text.figures import inner_figures

if TYPE_CHECKING:
    from argosy.corpus.cleaning.kernels.filters.decontamination import Words

SHORT = 8  # words (twice as many Han characters) of a short question
LEAST = 4  # words below which a question is nobody's: "2 + 2 = ?"
_COMMON = 10  # items that share an n-gram beyond which it tells nothing (Brown et al. 2020)
_ANCHOR_TARGETS = 64  # targets that share an anchor beyond which it is none
_ENDS = (".", "。", ":", "：", "_", ")", "）")  # of an order, and of a gap to fill
ANCHOR, NGRAM, OPTION = range(3)


class _Postings(NamedTuple):
    """Index of n-grams in targets: by n-gram (sorted hashes) a range of rows of target, place and role."""

    known: Hashes
    offsets: Integers
    rows: Integers


class Targets:
    """Targets of the search: the items' questions, and then their options.

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
        texts = [str(item["question"]).strip().rstrip("?？") for item in self._items]
        return split_words([*texts, *(str(choice) for item in self._items for choice in item.get("choices") or ())])

    @cached_property
    def _asks(self) -> list[bool]:
        return [str(item["question"]).strip().endswith(("?", "？")) for item in self._items]

    @cached_property
    def _orders(self) -> list[bool]:
        """Tell which items are an order without options ("Compute the sum."), or a gap to fill: they end as a sentence
        does, which the beginning of one ("The artist who painted the Mona Lisa is") does not."""
        return [str(item["question"]).rstrip().endswith(_ENDS) and not item.get("choices") for item in self._items]

    @cached_property
    def _sizes(self) -> Integers:
        """Words of each target."""
        return self._words.first[1:] - self._words.first[:-1]

    @cached_property
    def _factor(self) -> Integers:
        """2 of a target that is counted in Han characters, else 1."""
        counted = np.concatenate([[0], np.cumsum(self._words.han)])
        shares = (counted[self._words.first[1:]] - counted[self._words.first[:-1]]) / np.maximum(self._sizes, 1)
        return np.where(shares > 0.3, 2, 1)

    @cached_property
    def _shared(self) -> set[int]:
        """Numbers of the items whose question is another item's too: it is no proof."""
        from argosy.corpus.cleaning.kernels.filters.decontamination import grams, powers

        count = len(self._items)
        whole = grams(self._words.prefix, self._words.first[:count], self._sizes[:count], powers(self._sizes[:count]))
        _, inverse, times = np.unique(whole, return_inverse=True, return_counts=True)
        alike: dict[int, set[tuple[str, ...]]] = {}
        for item, group in zip(self._items, inverse.tolist(), strict=True):
            if times[group] > 1:
                alike.setdefault(group, set()).add(tuple(sorted(map(str, item.get("choices") or ()))))
        return {number for number, group in enumerate(inverse.tolist()) if len(alike.get(group, ())) > 1}

    def _anchor_sizes(self) -> Integers:
        """Words of the n-grams that a question is recognised by: fewer of a short one."""
        count = len(self._items)
        sizes, factor = self._sizes[:count], self._factor[:count]
        return np.where(factor == 2, np.where(sizes < 2 * SHORT, 4, 6), np.where(sizes < SHORT, 3, 4))

    @cached_property
    def _postings(self) -> _Postings:
        """Make the n-grams of all targets: anchors of questions, n-grams that are proof, beginnings of options."""
        count, sizes, factor = len(self._items), self._sizes, self._factor
        long_enough = sizes[:count] >= LEAST
        parts = [self._grams(np.flatnonzero(long_enough), self._anchor_sizes()[long_enough], ANCHOR)]
        long = np.flatnonzero(sizes[:count] >= self._ngram * factor[:count])
        parts.append(self._grams(long, self._ngram * factor[long], NGRAM))
        options = np.flatnonzero(sizes[count:] >= LEAST * factor[count:]) + count
        # Of n-grams that begin with another word than a Han character, those of six words are looked up in Chinese too.
        begun = np.where(self._words.han[self._words.first[options]], LEAST * factor[options], 6)
        parts.append(self._grams(options, np.where(factor[options] == 2, begun, LEAST), OPTION))
        hashes = np.concatenate([hashes for hashes, _ in parts])
        rows = np.concatenate([rows for _, rows in parts])
        order = np.argsort(hashes, kind="stable")
        hashes, rows = hashes[order], rows[order]
        keep = self._telling(hashes, rows)
        known, first = np.unique(hashes[keep], return_index=True)
        return _Postings(known, np.append(first, keep.sum()).astype(np.int64), rows[keep])

    def _telling(self, hashes: Hashes, rows: Integers) -> Flags:
        """Tell which postings are of n-grams that few targets have."""
        grams = hashes ^ rows[:, 2].astype(np.uint64)
        inside = np.unique(grams * np.uint64(0x9E3779B97F4A7C15) + rows[:, 0].astype(np.uint64), return_index=True)[1]
        values, times = np.unique(grams[inside], return_counts=True)
        often = times[np.searchsorted(values, grams)]
        telling: Flags = often <= np.where(rows[:, 2] == ANCHOR, _ANCHOR_TARGETS, _COMMON)
        return telling

    def _grams(self, targets: Integers, sizes: Integers, role: int) -> tuple[Hashes, Integers]:
        """Return hashes and rows (target, place, role) of n-grams of targets; of options the first alone."""
        from argosy.corpus.cleaning.kernels.filters.decontamination import grams, powers

        each = np.ones_like(targets) if role == OPTION else np.maximum(self._sizes[targets] - sizes + 1, 0)
        owners = np.repeat(np.arange(len(targets)), each)
        offsets = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        at = self._words.first[targets][owners] + offsets
        distinct, which = np.unique(sizes, return_inverse=True)
        hashes = grams(self._words.prefix, at, sizes[owners], powers(distinct)[which][owners])
        return hashes, np.stack([targets[owners], offsets, np.full(len(at), role)], axis=1).astype(np.int64)

    @cached_property
    def _filter(self) -> Hashes:
        from argosy.corpus.cleaning.kernels.filters.decontamination import bloom

        words: Hashes = bloom(self._postings.known)
        return words

    def _options_of(self, item: int) -> range:
        """Return the targets that are the item's options."""
        return range(self._option_bounds[item], self._option_bounds[item + 1])

    @cached_property
    def _option_bounds(self) -> list[int]:
        counts = (len(item.get("choices") or ()) for item in self._items)
        return list(accumulate(counts, initial=len(self._items)))

    @cached_property
    def _figures(self) -> list[list[str]]:
        return [inner_figures(str(item["question"])) for item in self._items]


def split_words(texts: list[str]) -> "Words":
    from argosy.corpus.cleaning.kernels.filters.decontamination import split

    starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return split(np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32), starts)
