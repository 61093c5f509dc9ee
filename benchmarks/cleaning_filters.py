"""Quality filters beside datatrove's: one process each, the same documents, the papers' thresholds.

datatrove's filters run one after the other on what the one before has kept, as in its own pipelines; ours look at every
document. Both sides make their documents from the texts, decide, and give back the texts that stay."""

import gzip
import importlib
import json
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import regex

from argosy.cleaning.batch import Batch
from argosy.cleaning.filter import Filter, Resources
from argosy.cleaning.filters import make_filters, parse_filters
from argosy.cleaning.scoring import KEPT, decide, score
from argosy.data.schemas import Document
from argosy.text.scripts import HAN, is_han
from benchmarks.side_by_side import shared

FOLDERS = ("zh_d2l", "en_rustbook", "zh_rustbook", "dolma_fixtures", "data_juicer_demo", "llamafactory_demo")
PAPERS: Mapping[str, Mapping[str, Any]] = {
    "gopher_repetition": {"lettered_pieces": False},
    "gopher_quality": {"min_words": 50, "bullets": "•-", "min_alphabetic_word_share": 0.8,
                       "stop_words": ("the", "be", "to", "of", "and", "that", "have", "with")},
    "c4_quality": {"line_ends": ".?!\"'"},
    "c4_paragraphs": {},
    "fineweb_quality": {"chinese_short_line": 30}
}  # fmt: skip
"""The thresholds of the papers, which are datatrove's defaults, for our filters."""
PEERS = {
    "gopher_repetition": ("gopher_repetition_filter", "GopherRepetitionFilter"),
    "gopher_quality": ("gopher_quality_filter", "GopherQualityFilter"),
    "c4_quality": ("c4_filters", "C4QualityFilter"), "c4_paragraphs": ("c4_filters", "C4ParagraphFilter"),
    "fineweb_quality": ("fineweb_quality_filter", "FineWebQualityFilter")
}  # fmt: skip
CHAIN = ("gopher_repetition", "gopher_quality", "c4_quality", "fineweb_quality")  # of FineWeb, in its order
_BATCH = 2_000_000  # characters, as the score step
_SENTENCE_END = regex.compile(r"(\p{Sentence_Terminal}+)[\"')\]»”’）】」』》]*")
Words = Literal["spacy", "regex"]


class RegexWords:
    """Our words and sentences by regular expressions: the fastest that datatrove can be given."""

    _words = re.compile(rf"[{HAN}]|[^\W{HAN}]+")

    def word_tokenize(self, text: str) -> list[str]:
        """Split a text into words."""
        return self._words.findall(text.lower())

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        """Split after Sentence_Terminal characters and closing signs, where a space follows or the last is wide."""
        ends = [0, *(found.end() for found in _SENTENCE_END.finditer(text)
                     if not text[found.end() : found.end() + 1].strip() or max(found[1]) >= "\u3000")]
        if text[ends[-1] :].strip():
            ends.append(len(text))
        return list(zip(ends, ends[1:], strict=False))  # noqa: RUF007 (datatrove needs a list of pairs)


def real_texts() -> list[str]:
    """Return documents of books, web pages, tables and scraps, in two languages; none where there is no test data."""
    return [text for name in FOLDERS for path in sorted(shared(name).rglob("*")) for text in _texts(path) if text]


def _texts(path: Path) -> Iterator[str]:
    if path.suffix == ".md":
        yield path.read_text(encoding="utf-8")
    elif path.suffix == ".jsonl" or path.name.endswith("documents__000.json.gz"):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                # Two files of data-juicer's are JSON over several lines.
                value = json.loads(line) if line.startswith("{") and line.rstrip().endswith("}") else {}
                yield value.get("text") or ""


def repeated_texts(megabytes: float, seed: int = 0) -> list[str]:
    """Return English documents of so many MB: the real ones, then again with their paragraphs in other orders."""
    texts = [text for text in dict.fromkeys(real_texts()) if not is_han(text)]
    rng, found, size = random.Random(seed), [], 0.0
    while texts and size < megabytes:
        for text in rng.sample(texts, len(texts)):
            paragraphs = text.split("\n\n")
            rng.shuffle(paragraphs)
            found.append("\n\n".join(paragraphs) if size else text)
            size += len(text.encode()) / 1e6
    return found


def our_filters(names: Sequence[str] = CHAIN) -> dict[str, Filter[Any]]:
    """Make our filters with the papers' thresholds."""
    configs: Any = parse_filters([{"name": name, **PAPERS[name]} for name in names])
    return dict(zip(names, make_filters(configs, Resources()), strict=True))


def ours(texts: Sequence[str]) -> list[str]:
    """Filter with Argosy; return what stays."""
    filters, kept = our_filters(), []
    for batch in _batches(texts):
        scored = score(batch, filters)
        codes, _ = decide(filters, scored.scores, np.full(len(batch), "web"))
        kept += [text for text, code in zip(scored.batch.texts, codes, strict=True) if code == KEPT]
    return kept


def _batches(texts: Sequence[str]) -> Iterator[Batch]:
    held: list[Document] = []
    size = 0
    for at, text in enumerate(texts):
        held.append(Document(str(at), text, "web"))
        size += len(text)
        if size >= _BATCH:
            yield Batch(held)
            held, size = [], 0
    if held:
        yield Batch(held)


def peer_filter(name: str) -> Any:
    """Make datatrove's filter of the same rules, with its defaults."""
    module, kind = PEERS[name]
    return getattr(importlib.import_module(f"datatrove.pipeline.filters.{module}"), kind)()


def datatrove(texts: Sequence[str], words: Words) -> list[str]:
    """Filter with datatrove; return what stays."""
    from datatrove.data import Document as Theirs
    from datatrove.utils import word_tokenizers

    load = word_tokenizers.load_word_tokenizer
    if words == "regex":
        word_tokenizers.load_word_tokenizer = lambda language: RegexWords()  # it has none that is as fast
    try:
        documents: Any = (Theirs(text=text, id=str(at)) for at, text in enumerate(texts))
        for name in CHAIN:
            documents = peer_filter(name).run(documents)
        return [document.text for document in documents]
    finally:
        word_tokenizers.load_word_tokenizer = load


def _measured(run: Callable[[], list[str]]) -> tuple[float, float, int]:
    begin, cpu = time.perf_counter(), time.process_time()
    kept = run()
    return time.perf_counter() - begin, time.process_time() - cpu, len(kept)


def ratio(texts: Sequence[str], words: Words, rounds: int = 3) -> dict[str, float]:
    """Measure both sides in turns; return `ratio` (how many times as fast ours is, by medians), `ours` and `datatrove`
    (seconds), `cpu_ratio` (the same by the processor's time, which other work on the machine disturbs less),
    `ours_kept` and `datatrove_kept` (documents), and `megabytes` of text.

    Loops are compiled, and datatrove's words are loaded, by a run over a few documents before."""
    from loguru import logger

    logger.remove()
    ours(texts[:20])
    datatrove(texts[:20], words)
    mine, theirs = [], []
    for _ in range(rounds):
        mine.append(_measured(lambda: ours(texts)))
        theirs.append(_measured(lambda: datatrove(texts, words)))
    (fast, fast_cpu, kept), (slow, slow_cpu, their_kept) = (
        map(statistics.median, zip(*side, strict=True)) for side in (mine, theirs))
    return {"ratio": slow / fast, "ours": fast, "datatrove": slow, "cpu_ratio": slow_cpu / fast_cpu, "ours_kept": kept,
            "datatrove_kept": their_kept, "megabytes": sum(len(text.encode()) for text in texts) / 1e6}
