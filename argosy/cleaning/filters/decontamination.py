"""Removal of documents that contain benchmark items.

Long questions by 13-grams of words (Brown et al. 2020, appendix C), short ones as a whole, question mark
included: "The artist who painted the Mona Lisa is ..." is honest prose and has the words of a question. Without
the mark ("The capital of France is") the words count only where at least three of the item's options follow at once.
A whole question in Chinese begins where no Han character stands before it: 白俄罗斯 (Belarus) is not 俄罗斯
(Russia)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from argosy.cleaning.filter import Drop, Filter, FilterConfig, Resources
from argosy.data.schemas import Document
from argosy.text.scripts import HAN, is_han

_TOKEN = re.compile(rf"[{HAN}?]|[^\W{HAN}]+")
_ANCHOR = 4  # the first words of a pattern, by which it is looked up
_HAN_BEFORE = re.compile(rf"[{HAN}]\Z")
_LEAD_IN = re.compile(r"(?:请|請|试|試)[问問]\Z")  # "May I ask": a question begins after it all the same
_LABELS = 12  # words besides its options that an item has after its question: labels, "Answer", ...


class DecontaminationConfig(FilterConfig):
    """Thresholds of decontamination."""

    name: str = "decontamination"
    ngram: Annotated[int, Field(ge=_ANCHOR)] = 13
    """Words (or half the Han characters) from which on a question matches by any n-gram, a shorter one as a whole."""


@dataclass(frozen=True)
class _Pattern:
    words: tuple[str, ...]
    options: tuple[str, ...]  # () where the words alone are proof
    whole: bool  # from the question's beginning on; else it may stand in the middle of a sentence


class Decontamination(Filter[DecontaminationConfig]):
    """A filter that looks each document's words up among the benchmark's questions."""

    config_class = DecontaminationConfig

    def __init__(self, config: DecontaminationConfig, resources: Resources) -> None:
        super().__init__(config, resources)
        self._patterns: dict[tuple[str, ...], list[_Pattern]] = {}
        for item in resources.benchmark:
            for pattern in self._patterns_of(item):
                self._patterns.setdefault(pattern.words[:_ANCHOR], []).append(pattern)

    def _patterns_of(self, item: Mapping[str, Any]) -> list[_Pattern]:
        tokens = _tokens(str(item["question"]))
        asks = tokens[-1:] == ("?",)
        bare = tokens[:-1] if asks else tokens
        if len(bare) < _ANCHOR:  # too short to be anybody's: "2 + 2 = ?"
            return []
        n = self.config.ngram * (2 if is_han(str(item["question"])) else 1)  # a word is about two characters
        if len(bare) >= n and asks:
            return [_Pattern(bare[i : i + n], (), whole=False) for i in range(len(bare) - n + 1)]
        options = tuple(" ".join(_tokens(str(choice))) for choice in item["choices"])
        quoted = [_Pattern(tokens, (), whole=True)] if asks else []
        return [*quoted, _Pattern(bare, options, whole=True)]

    def __call__(self, document: Document) -> Document | Drop:
        if not self._patterns:
            return document
        text = _plain(document.text)
        tokens = _tokens(text)
        starts = zip(*(tokens[i:] for i in range(_ANCHOR)), strict=False)
        patterns = self._patterns
        for index, start in enumerate(starts):
            if start in patterns and any(
                _matches(p, tokens, index) and (not p.whole or _begins(text, index)) for p in patterns[start]
            ):
                return Drop("benchmark item")
        return document


def _plain(text: str) -> str:
    return text.lower().replace("？", "?")


def _tokens(text: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(_plain(text)))


def _begins(text: str, index: int) -> bool:
    """Whether a sentence can begin with the token `index` of `text` (plain), as far as its script tells."""
    token = next(islice(_TOKEN.finditer(text), index, None))
    before = text[max(0, token.start() - 2) : token.start()]
    if not _HAN_BEFORE.search(token.group()):
        return True  # words between spaces are whole
    return not _HAN_BEFORE.search(before) or bool(_LEAD_IN.search(before))


def _matches(pattern: _Pattern, tokens: tuple[str, ...], index: int) -> bool:
    end = index + len(pattern.words)
    if tokens[index:end] != pattern.words:
        return False
    if not pattern.options:
        return True
    window = sum(option.count(" ") + 1 for option in pattern.options) + _LABELS
    after = f" {' '.join(tokens[end : end + window])} "
    options = set(pattern.options)
    return sum(f" {option} " in after for option in options) >= min(3, len(options))
