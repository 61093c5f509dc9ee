"""datatrove as a peer, with its own words, spaCy's, or the fastest that it can be given; both sides in turns over the
real texts of the shared test data, as many of them as a measure needs."""

import gzip
import json
import logging
import random
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import regex

from argosy.corpus.cleaning.batch import Batch, batches
from argosy.corpus.data.schemas import Document
from argosy.corpus.text.scripts import HAN, is_han
from benchmarks import side_by_side
from steps.score import ScoreConfig

FOLDERS = ("zh_d2l", "en_rustbook", "zh_rustbook", "dolma_fixtures", "data_juicer_demo", "llamafactory_demo")
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


def compared(sides: Mapping[str, dict[str, Any]], texts: Sequence[str], peer: str = "datatrove") -> dict[str, float]:
    """Make the figures of a measure.

    Args:
        sides: ours and the peer's as `in_turns` gives them; the results are what stays.

    Returns:
        `ratio` (how many times as fast ours is, by medians), `cpu_ratio` (by the processor's time, which other work on
        the machine disturbs less), `ours` and `datatrove` (seconds), `ours_kept` and `datatrove_kept` (documents),
        `agreed` (the share of documents on which both decide alike), and `megabytes` of text."""
    mine, theirs = sides["ours"], sides[peer]
    return {"ratio": theirs["seconds"] / mine["seconds"], "cpu_ratio": theirs["cpu"] / mine["cpu"],
            "ours": mine["seconds"], peer: theirs["seconds"], "ours_kept": len(mine["result"]),
            f"{peer}_kept": len(theirs["result"]), "agreed": agreed(mine["result"], theirs["result"], len(texts)),
            "megabytes": sum(len(text.encode()) for text in texts) / 1e6}


def in_turns(sides: Mapping[str, Callable[[Path], Any]], rounds: int) -> dict[str, dict[str, Any]]:
    """Run each side so many times, in turns and in a new folder; return the median `seconds` and `cpu` of each, by the
    clock and by the processor, and the `result` of the last time."""
    from loguru import logger

    logger.remove()
    logging.disable(logging.INFO)

    def in_folder(side: Callable[[Path], Any]) -> Any:
        with TemporaryDirectory() as folder:
            return side(Path(folder))

    turns = side_by_side.in_turns({name: partial(in_folder, side) for name, side in sides.items()}, rounds)
    return {name: {"seconds": statistics.median(turn.seconds for turn in each),
                   "cpu": statistics.median(turn.cpu for turn in each), "result": each[-1].result}
            for name, each in turns.items()}


@cache
def real_texts() -> list[str]:
    """Return documents of books, web pages, tables and scraps, in two languages; none where there is no test data."""
    return [text for name in FOLDERS for path in sorted(side_by_side.shared(name).rglob("*"))
            for text in _texts(path) if text]


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


def batched(texts: Iterable[str]) -> Iterator[Batch]:
    """Yield batches of documents, of the size that the score step has."""
    documents = (Document(str(at), text, "web") for at, text in enumerate(texts))
    return batches(documents, ScoreConfig.model_fields["batch_characters"].default)
