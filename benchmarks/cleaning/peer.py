"""datatrove as a peer: with its own words, spaCy's, or the fastest that it can be given; both sides in turns."""

import logging
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import regex

from argosy.corpus.text.scripts import HAN

Words = Literal["spacy", "regex"]
_SENTENCE_END = regex.compile(r"(\p{Sentence_Terminal}+)[\"')\]»”’）】」』》]*")
_LOADER = "load_word_tokenizer"


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


@contextmanager
def splitting(words: Words) -> Iterator[None]:
    """Have datatrove split words so, wherever its modules have imported the function that loads them."""
    import datatrove.pipeline.dedup.minhash  # noqa: F401 (what is imported later would keep the words)
    from datatrove.utils import word_tokenizers

    own = getattr(word_tokenizers, _LOADER)
    places = [module for name, module in list(sys.modules.items())
              if name.startswith("datatrove.") and getattr(module, _LOADER, None) is own]
    for module in places if words == "regex" else ():
        setattr(module, _LOADER, lambda language: RegexWords())
    try:
        yield
    finally:
        for module in places:
            setattr(module, _LOADER, own)


def documents(texts: Iterable[str]) -> Iterator[Any]:
    """Yield datatrove's documents, named by their numbers."""
    from datatrove.data import Document

    return (Document(text=text, id=str(at)) for at, text in enumerate(texts))


def agreed(mine: Iterable[str], theirs: Iterable[str], documents: int) -> float:
    """Return the share of documents on which two sides agree, by ids or texts of those that each has kept."""
    ours, peers = Counter(mine), Counter(theirs)
    return 1 - ((ours - peers).total() + (peers - ours).total()) / documents


def compared(sides: Sequence[dict[str, Any]], texts: Sequence[str]) -> dict[str, float]:
    """Make the figures of a measure.

    Args:
        sides: ours and datatrove's as `in_turns` gives them; the results are what stays.

    Returns:
        `ratio` (how many times as fast ours is, by medians), `cpu_ratio` (by the processor's time, which other work on
        the machine disturbs less), `ours` and `datatrove` (seconds), `ours_kept` and `datatrove_kept` (documents),
        `agreed` (the share of documents on which both decide alike), and `megabytes` of text."""
    mine, theirs = sides
    return {"ratio": theirs["seconds"] / mine["seconds"], "cpu_ratio": theirs["cpu"] / mine["cpu"],
            "ours": mine["seconds"], "datatrove": theirs["seconds"], "ours_kept": len(mine["result"]),
            "datatrove_kept": len(theirs["result"]), "agreed": agreed(mine["result"], theirs["result"], len(texts)),
            "megabytes": sum(len(text.encode()) for text in texts) / 1e6}


def in_turns(sides: Sequence[Callable[[Path], Any]], rounds: int) -> list[dict[str, Any]]:
    """Run each side so many times, in turns and in a new folder; return the median `seconds` and `cpu` of each, by the
    clock and by the processor, and the `result` of the last time."""
    from loguru import logger

    logger.remove()
    logging.disable(logging.INFO)
    runs = [[_run(side) for side in sides] for _ in range(rounds)]
    return [{"seconds": statistics.median(one[at][0] for one in runs), "cpu": statistics.median(one[at][1] for one in
             runs), "result": runs[-1][at][2]} for at in range(len(sides))]


def _run(side: Callable[[Path], Any]) -> tuple[float, float, Any]:
    with TemporaryDirectory() as folder:
        begin, cpu = time.perf_counter(), time.process_time()
        result = side(Path(folder))
        return time.perf_counter() - begin, time.process_time() - cpu, result
