"""Gopher's quality rules (Rae et al. 2021, "Scaling Language Models", appendix A.1.1), for English and Chinese."""

import re
from typing import Annotated

from pydantic import Field

from argosy.cleaning.filter import Drop, Filter, FilterConfig
from argosy.data.schemas import Document
from argosy.text.scripts import is_han, words

_WORD = re.compile(r"\S+")
_ELLIPSIS = re.compile(r"\.\.\.|…")
_BULLET = ("•", "-", "*", "·", "●")
_ENGLISH_STOP_WORDS = frozenset(
    ("the", "be", "to", "of", "and", "that", "have", "with", "is", "are", "in", "a", "an", "for", "as", "it", "by",
     "on", "or")
)  # fmt: skip
_CHINESE_STOP_WORDS = frozenset(
    "的是在了和不有为以这与之于也而就中上"  # modern, then also classical
    "為這與於无無其何所此若如自相未莫且乃者乎矣焉哉兮亦谁誰"
)
_CLAUSE = re.compile(r"[，。！？；：、\n]+")
_SENTENCE_END = re.compile(r"[。！？]|，[^\n。！？]*\n")  # or the end of a line of two clauses


class GopherQualityConfig(FilterConfig):
    """Thresholds. A Chinese text's words are its characters, so its mean word length is not looked at.

    Three departures from the paper, whose corpus was web pages: it wants 50 words, but a short article
    is not noise; more stop words count; and documentation has tables, so fewer words need letters (paper: 0.8)."""

    name: str = "gopher_quality"
    skip_channels: tuple[str, ...] = ("code",)
    min_words: Annotated[int, Field(ge=0)] = 10
    """Fewest words."""
    max_words: Annotated[int, Field(ge=1)] = 100_000
    """Most words."""
    min_mean_word_length: float = 3.0
    """Smallest mean length of a word, in characters."""
    max_mean_word_length: float = 10.0
    """Largest mean length of a word, in characters."""
    max_symbol_word_ratio: float = 0.1
    """Most `#` and ellipses, as a share of the words."""
    max_bullet_line_share: float = 0.9
    """Largest share of lines that begin with a bullet."""
    max_ellipsis_line_share: float = 0.3
    """Largest share of lines that end with an ellipsis."""
    min_alphabetic_word_share: float = 0.5
    """Smallest share of words with a letter."""
    min_stop_words: Annotated[int, Field(ge=0)] = 2
    """Fewest stop words."""


class GopherQuality(Filter[GopherQualityConfig]):
    """A filter by length, word shape, symbols, bullets, ellipses and stop words."""

    config_class = GopherQualityConfig

    def __call__(self, document: Document) -> Document | Drop:
        text = document.text
        reason = self._chinese(text) if is_han(text) else self._spaced(text)
        return Drop(reason) if reason else self._lines(document)

    def _chinese(self, text: str) -> str:
        tokens = words(text)
        reason = self._length(len(tokens)) or self._symbols(text, len(tokens))
        if reason:
            return reason
        # Below 20 characters a sentence may well do without one.
        enough = self.config.min_stop_words if len(tokens) >= 20 else 0
        found = len(_CHINESE_STOP_WORDS.intersection(tokens))
        return "" if found >= enough or _is_verse(text) else "too few stop words"

    def _spaced(self, text: str) -> str:
        tokens = _WORD.findall(text)
        spoken = [token for token in tokens if not token.isalnum() or token.isalpha() or len(token) > 1]
        reason = self._length(len(spoken)) or self._symbols(text, len(tokens))
        if reason or not tokens:
            return reason
        bare = [token for token in (token.strip(".,;:!?\"'()[]{}`*=-_") for token in tokens) if token]
        mean = sum(map(len, bare)) / max(len(bare), 1)
        if not self.config.min_mean_word_length <= mean <= self.config.max_mean_word_length:
            return "mean word length"
        if sum(any(map(str.isalpha, t)) for t in tokens) < self.config.min_alphabetic_word_share * len(tokens):
            return "too few alphabetic words"
        if len(_ENGLISH_STOP_WORDS.intersection(map(str.lower, bare))) < self.config.min_stop_words:
            return "too few stop words"
        return ""

    def _length(self, count: int) -> str:
        if count < self.config.min_words:
            return "too short"
        return "too long" if count > self.config.max_words else ""

    def _symbols(self, text: str, count: int) -> str:
        limit = self.config.max_symbol_word_ratio * count
        if text.count("#") > limit:
            return "too many hashes"
        return "too many ellipses" if len(_ELLIPSIS.findall(text)) > limit else ""

    def _lines(self, document: Document) -> Document | Drop:
        lines = [line.strip() for line in document.text.split("\n") if line.strip()]
        if sum(line.startswith(_BULLET) for line in lines) > self.config.max_bullet_line_share * len(lines):
            return Drop("almost only bullets")
        if sum(line.endswith(("...", "…")) for line in lines) > self.config.max_ellipsis_line_share * len(lines):
            return Drop("too many lines end in an ellipsis")
        return document


def _is_verse(text: str) -> bool:
    """Whether short clauses stand in sentences, as in classical poems, which may do without any stop word.

    A list of keywords has clauses as short, but no sentence ends among them."""
    clauses = [len(clause) for clause in map(str.strip, _CLAUSE.split(text)) if clause]
    mean = sum(clauses) / max(1, len(clauses))
    return mean <= 8 and 5 * len(_SENTENCE_END.findall(text)) >= len(clauses) >= 4
