"""Removal of insulting text by word lists.

A word alone decides little (Dodge et al. 2021 show what C4 lost by one-word rules): mild words weigh 1, words that
news, law, medicine or old books have too 2, the others 3. A document goes when they are many for its length."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf, nextafter
from typing import Annotated

from pydantic import Field

from argosy.core.lazy import Integers, np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Resources, Rule, Scores, read_weights
from argosy.corpus.text.scripts import HAN

_HAN = re.compile(f"[{HAN}]")
_AFTER = re.compile(r"(?:s|es|ed|ing|er|ers)?(?![a-z0-9_])")  # an ending of plural and verb forms, and no letter more
_LONGEST_ENDING = 5


class ToxicityConfig(FilterConfig):
    """Thresholds of toxicity; both must be reached for a document to go."""

    name: str = "toxicity"
    skip_channels: tuple[str, ...] = ("code",)
    min_weight: Annotated[int, Field(ge=1)] = 3
    """Sum of the weights of its words."""
    min_weight_per_1000: Annotated[float, Field(ge=0)] = 1
    """The same sum by 1000 characters."""


class Toxicity(Filter[ToxicityConfig]):
    """A filter by whole words where words have spaces around them, substrings in Chinese.

    Scores: `weight`, each word counted once, and `weight_per_1000` characters."""

    def __init__(self, config: ToxicityConfig, resources: Resources) -> None:
        super().__init__(config, resources)
        further = {word.strip().lower(): 3 for word in resources.words if len(word.strip()) > 1}
        self._weights: Mapping[str, int] = read_weights("toxic.txt") | further
        self._words = tuple(sorted(self._weights))
        self._spaced = tuple(not _HAN.search(word) for word in self._words)

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        weight = np.zeros(len(batch))
        for document, insults in self._insults(batch).items():
            weight[document] = sum(self._weights[word] for word in insults)
        return batch, {"weight": weight, "weight_per_1000": 1000 * weight / np.maximum(batch.lengths, 1)}

    def rules(self) -> Sequence[Rule]:
        """List the thresholds: a document goes that reaches both."""
        dense = Rule("weight_per_1000", "insults", most=nextafter(self.config.min_weight_per_1000, -inf))
        return (Rule("weight", "insults", most=nextafter(self.config.min_weight, -inf), also=dense),)

    @cached_property
    def _sizes(self) -> Integers:
        return np.array([len(word) for word in self._words], np.int64)

    def _insults(self, batch: Batch) -> dict[int, set[str]]:
        """Return the listed words of documents that have any: each word once, as 傻瓜 twice may be about cameras."""
        owners, places, numbers = batch.find(self._words, self._spaced)
        found: dict[int, set[str]] = {}
        covered = 0  # of words that begin within a longer one only the longer counts
        for at in np.lexsort((-self._sizes[numbers], places)):
            place, number, owner = int(places[at]), int(numbers[at]), int(owners[at])
            word = self._words[number]
            end = place - int(batch.starts[owner]) + len(word)
            if place < covered or (self._spaced[number] and not _AFTER.match(
                    batch.documents[owner].text[end : end + _LONGEST_ENDING].lower())):
                continue
            found.setdefault(owner, set()).add(word)
            covered = place + len(word)
        return found
