"""Removal of insulting text by word lists.

A word alone decides little (Dodge et al. 2021 show what C4 lost by one-word rules): mild words weigh 1,
strong ones 2, and a document goes when the weights are many for its length."""

import re
from functools import cache
from typing import Annotated

from pydantic import Field

from argosy.cleaning.filter import Drop, Filter, FilterConfig, Resources, read_words
from argosy.data.schemas import Document
from argosy.text.scripts import HAN

_HAN = re.compile(f"[{HAN}]")
_ENDINGS = "(?:s|es|ed|ing|er|ers)?"


class ToxicityConfig(FilterConfig):
    """Thresholds of toxicity; both must be reached for a document to go."""

    name: str = "toxicity"
    skip_channels: tuple[str, ...] = ("code",)
    min_weight: Annotated[int, Field(ge=1)] = 2
    """Sum of the weights of its words."""
    min_weight_per_1000: Annotated[float, Field(ge=0)] = 0.5
    """The same sum by 1000 characters."""


class Toxicity(Filter[ToxicityConfig]):
    """A filter by whole words where words have spaces around them, substrings in Chinese."""

    config_class = ToxicityConfig

    def __init__(self, config: ToxicityConfig, resources: Resources) -> None:
        super().__init__(config, resources)
        self._weights = word_weights() | {word.strip().lower(): 2 for word in resources.words if len(word.strip()) > 1}
        self._pattern = _compile(sorted(self._weights, key=lambda word: (-len(word), word)))

    def __call__(self, document: Document) -> Document | Drop:
        # Each word once: "傻瓜" twice may be about cameras.
        insults = {match["han"] or match["spaced"] for match in self._pattern.finditer(document.text.lower())}
        weight = sum(self._weights[word] for word in insults)
        enough = max(self.config.min_weight, self.config.min_weight_per_1000 * len(document.text) / 1000)
        return Drop("insults") if weight >= enough else document


@cache
def word_weights() -> dict[str, int]:
    """Read the weight of each word of `words/toxic.txt`."""
    pairs = (line.split(" ", 1) for line in read_words("toxic.txt"))
    return {word: int(weight) for weight, word in pairs}


def _compile(words: list[str]) -> re.Pattern[str]:
    han = "|".join(re.escape(word) for word in words if _HAN.search(word))
    spaced = "|".join(re.escape(word) for word in words if not _HAN.search(word))
    # \b would see a Han character as a part of the word beside it.
    return re.compile(rf"(?P<han>{han or '(?!)'})|(?<![a-z0-9_])(?P<spaced>{spaced or '(?!)'}){_ENDINGS}(?![a-z0-9_])")
