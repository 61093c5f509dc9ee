"""Decisions about real text against datatrove's own filters, with the words and sentences that ours look at."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import regex

from argosy.cleaning.batch import Batch
from argosy.cleaning.scoring import KEPT, decide, score
from argosy.data.schemas import Document
from tests.cleaning_fixtures import make
from tests.cleaning_peer import peer, real_texts

PAPER = {
    "c4_quality": {"line_ends": ".?!\"'"},
    "c4_paragraphs": {},
    "fineweb_quality": {"chinese_short_line": 30},
    "gopher_quality": {
        "min_words": 50, "bullets": "•-", "min_alphabetic_word_share": 0.8,
        "stop_words": ("the", "be", "to", "of", "and", "that", "have", "with")
    },
    "gopher_repetition": {},
}
CLASSES = {
    "c4_quality": ("c4_filters", "C4QualityFilter"), "c4_paragraphs": ("c4_filters", "C4ParagraphFilter"),
    "fineweb_quality": ("fineweb_quality_filter", "FineWebQualityFilter"),
    "gopher_quality": ("gopher_quality_filter", "GopherQualityFilter"),
    "gopher_repetition": ("gopher_repetition_filter", "GopherRepetitionFilter")
}
COUNT_CHINESE_IN_CHARACTERS = {"c4_quality", "gopher_quality", "gopher_repetition"}
_SENTENCE_END = regex.compile(r"(\p{Sentence_Terminal}+)[\"')\]»”’）】」』》]*")


def sentences(text: str, language: str) -> list[str]:
    """Split where Sentence_Terminal characters are, and a space after them, which wide characters do without."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text)
            if not text[found.end() : found.end() + 1].strip() or max(found[1]) >= "\u3000"]
    return [piece for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if (piece := text[a:b].strip())]


@pytest.fixture(scope="module")
def batch() -> Batch:
    return Batch([Document(str(number), text, "web") for number, text in enumerate(dict.fromkeys(real_texts()))])


@pytest.mark.parametrize("name", PAPER)
def test_decisions_are_datatroves(name: str, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    module, class_name = CLASSES[name]
    other = peer(monkeypatch, module)
    if hasattr(other, "split_into_sentences"):
        monkeypatch.setattr(other, "split_into_sentences", sentences)
    if hasattr(other, "find_top_duplicate"):
        counted = other.find_top_duplicate
        monkeypatch.setattr(other, "find_top_duplicate", lambda grams: counted(grams) * (len(set(grams)) < len(grams)))
    filters = {name: make(name, **PAPER[name])}
    scored = score(batch, filters)
    codes, _ = decide(filters, scored.scores, np.full(len(batch), "web"))
    theirs = _decisions(getattr(other, class_name)(), batch)
    ours = [text if code == KEPT else None for text, code in zip(scored.batch.texts, codes, strict=True)]
    looked_at = ~batch.han if name in COUNT_CHINESE_IN_CHARACTERS else np.ones(len(batch), np.bool_)
    assert [at for at in np.flatnonzero(looked_at) if ours[at] != theirs[at]] == []
    assert 50 < sum(text is None for text in ours) < len(ours) - 50  # both decisions were made, and often


def _decisions(one: Any, batch: Batch) -> list[str | None]:
    """Return the text that datatrove's filter keeps, or None, of each document; it divides by no words in some."""
    from datatrove.data import Document as Peer

    decide: Callable[[Any], Any] = one.filter
    results: list[str | None] = []
    for document in batch.documents:
        theirs = Peer(text=document.text, id=document.id)
        try:
            results.append(theirs.text if decide(theirs) is True else None)
        except ZeroDivisionError:
            results.append(None)
    return results
