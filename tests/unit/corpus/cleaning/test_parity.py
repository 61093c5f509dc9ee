"""Decisions about real text against datatrove's own filters, with the words and sentences that ours look at."""

from typing import Any

import numpy as np
import pytest

from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.scoring import KEPT, decide, score
from argosy.corpus.data.schemas import Document
from benchmarks.cleaning import PAPERS, our_filters
from tests.datatrove_peer import RegexWords, peer_filter, real_texts

COUNT_CHINESE_IN_CHARACTERS = {"c4_quality", "gopher_quality", "gopher_repetition"}


@pytest.fixture(scope="module")
def batch() -> Batch:
    texts = list(dict.fromkeys(real_texts())) or pytest.skip("no test data beside the checkout")
    return Batch([Document(str(number), text, "web") for number, text in enumerate(texts)])


@pytest.mark.parametrize("name", PAPERS)
def test_decisions_are_datatroves(name: str, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizers = pytest.importorskip("datatrove.utils.word_tokenizers")
    monkeypatch.setattr(tokenizers, "load_word_tokenizer", lambda language: RegexWords())
    repetition = pytest.importorskip("datatrove.pipeline.filters.gopher_repetition_filter")
    top = repetition.find_top_duplicate
    monkeypatch.setattr(repetition, "find_top_duplicate", lambda grams: top(grams) * (len(set(grams)) < len(grams)))
    filters = our_filters([name])
    scored = score(batch, filters)
    codes, _ = decide(filters, scored.scores, np.full(len(batch), "web"))
    theirs = _decisions(peer_filter(name), batch)
    ours = [text if code == KEPT else None for text, code in zip(scored.batch.texts, codes, strict=True)]
    looked_at = ~batch.han if name in COUNT_CHINESE_IN_CHARACTERS else np.ones(len(batch), np.bool_)
    assert [at for at in np.flatnonzero(looked_at) if ours[at] != theirs[at]] == []
    assert 50 < sum(text is None for text in ours) < len(ours) - 50  # both decisions were made, and often


def _decisions(one: Any, batch: Batch) -> list[str | None]:
    """Return the text that datatrove's filter keeps, or None, of each document; it divides by no words in some."""
    from datatrove.data import Document as Peer

    results: list[str | None] = []
    for document in batch.documents:
        theirs = Peer(text=document.text, id=document.id)
        try:
            results.append(theirs.text if one.filter(theirs) is True else None)
        except ZeroDivisionError:
            results.append(None)
    return results
