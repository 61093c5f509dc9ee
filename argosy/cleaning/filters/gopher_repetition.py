"""Gopher's repetition rules (Rae et al. 2021, table A1), for text with spaces and for Chinese."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from argosy.cleaning.filter import Drop, Filter, FilterConfig
from argosy.data.schemas import Document
from argosy.text.scripts import is_han, words

_PARAGRAPH = re.compile(r"\n{2,}")
_LINE = re.compile(r"\n+")
_HAS_LETTER = re.compile(r"[^\W\d_]")
# Chinese counts in characters, of which a word has about two: n-grams are twice as long.
_HAN_SCALE = 2

Share = Annotated[float, Field(ge=0, le=1)]


class GopherRepetitionConfig(FilterConfig):
    """Largest shares of repetition, of pieces or of the text's characters."""

    name: str = "gopher_repetition"
    skip_channels: tuple[str, ...] = ("code",)
    max_line_share: Share = 0.30
    """Duplicate lines among the lines."""
    max_paragraph_share: Share = 0.30
    """Duplicate paragraphs among the paragraphs."""
    max_line_character_share: Share = 0.20
    """Characters in duplicate lines."""
    max_paragraph_character_share: Share = 0.20
    """Characters in duplicate paragraphs."""
    top_ngrams: Mapping[int, float] = {2: 0.20, 3: 0.18, 4: 0.16}
    """Characters in the most frequent n-gram, by n."""
    duplicate_ngrams: Mapping[int, float] = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
    """Count the characters in n-grams that occurred before, by n."""


class GopherRepetition(Filter[GopherRepetitionConfig]):
    """A filter that drops text that says the same again and again."""

    config_class = GopherRepetitionConfig

    def __call__(self, document: Document) -> Document | Drop:
        reason = self._pieces(document.text) or self._ngrams(document.text)
        return Drop(reason) if reason else document

    def _pieces(self, text: str) -> str:
        c = self.config
        for kind, split, share, character_share in (
            ("paragraphs", _PARAGRAPH, c.max_paragraph_share, c.max_paragraph_character_share),
            ("lines", _LINE, c.max_line_share, c.max_line_character_share),
        ):
            # Brackets and rules repeat in any text with code or tables.
            pieces = [piece for piece in split.split(text.strip()) if _HAS_LETTER.search(piece)]
            count, characters = duplicates(pieces)
            if count > share * len(pieces) or characters > character_share * len(text):
                return f"duplicate {kind}"
        return ""

    def _ngrams(self, text: str) -> str:
        scale = _HAN_SCALE if is_han(text) else 1
        tokens = words(text)
        size = len(text)
        for n, share in sorted(self.config.top_ngrams.items()):
            if top_ngram_characters(tokens, n * scale) > share * size:
                return f"top {n}-gram"
        if not self.config.duplicate_ngrams:
            return ""
        # What lies in a duplicate long n-gram lies in duplicate short ones: mostly one count settles all.
        shortest = min(self.config.duplicate_ngrams) * scale
        if repeated_characters(tokens, shortest) <= min(self.config.duplicate_ngrams.values()) * size:
            return ""
        for n, share in sorted(self.config.duplicate_ngrams.items()):
            if duplicate_ngram_characters(tokens, n * scale) > share * size:
                return f"duplicate {n}-grams"
        return ""


def duplicates(pieces: Sequence[str]) -> tuple[int, int]:
    """Return (how many pieces occurred before, their characters)."""
    repeated = Counter(pieces)
    extra = {piece: times - 1 for piece, times in repeated.items() if times > 1}
    return sum(extra.values()), sum(len(piece) * times for piece, times in extra.items())


def _grams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(tokens[i:] for i in range(n)), strict=False))


def top_ngram_characters(tokens: Sequence[str], n: int) -> int:
    """Count the characters of the most frequent n-gram times how often it occurs; 0 if none occurs twice."""
    grams = Counter(_grams(tokens, n))
    best = max(grams.values(), default=0)
    if best < 2:
        return 0
    return best * max(sum(map(len, gram)) for gram, times in grams.items() if times == best)


def repeated_characters(tokens: Sequence[str], n: int) -> int:
    """Count characters covered by n-grams that occurred before: no less than `duplicate_ngram_characters` counts."""
    seen: set[tuple[str, ...]] = set()
    grams = _grams(tokens, n)
    if len(set(grams)) == len(grams):
        return 0
    covered, end = 0, 0
    for index, gram in enumerate(grams):
        if gram in seen:
            covered += sum(map(len, tokens[max(end, index) : index + n]))
            end = index + n
        seen.add(gram)
    return covered


def duplicate_ngram_characters(tokens: Sequence[str], n: int) -> int:
    """Count the characters in n-grams that occurred before, each counted once (no overlaps)."""
    seen: set[tuple[str, ...]] = set()
    covered, index = 0, 0
    grams = _grams(tokens, n)
    while index < len(grams):
        if grams[index] in seen:
            covered += sum(map(len, grams[index]))
            index += n
        else:
            seen.add(grams[index])
            index += 1
    return covered
