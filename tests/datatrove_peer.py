"""datatrove as a peer of cleaning, with the fastest words and sentences that it takes, and texts of the shared data."""

import gzip
import importlib
import json
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import regex

from argosy.corpus.text.scripts import HAN, is_han
from benchmarks.side_by_side import shared

FOLDERS = ("zh_d2l", "en_rustbook", "zh_rustbook", "dolma_fixtures", "data_juicer_demo", "llamafactory_demo")
CHAIN = ("gopher_repetition", "gopher_quality", "c4_quality", "fineweb_quality")  # of FineWeb, in its order
BANDS, ROWS, SHINGLE = 14, 8, 5  # of FineWeb, datatrove's defaults
COMPRESSION = "zstd"
FILTERS = {
    "gopher_repetition": ("gopher_repetition_filter", "GopherRepetitionFilter"),
    "gopher_quality": ("gopher_quality_filter", "GopherQualityFilter"),
    "c4_quality": ("c4_filters", "C4QualityFilter"), "c4_paragraphs": ("c4_filters", "C4ParagraphFilter"),
    "fineweb_quality": ("fineweb_quality_filter", "FineWebQualityFilter")}
_SENTENCE_END = regex.compile(r"(\p{Sentence_Terminal}+)[\"')\]»”’）】」』》]*")
_LOADER = "load_word_tokenizer"


class RegexWords:
    """Our words and sentences by regular expressions."""

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
def splitting() -> Iterator[None]:
    """Have datatrove split words so, wherever its modules have imported the function that loads them."""
    import datatrove.pipeline.dedup.minhash  # noqa: F401 (what is imported later would keep the words)
    from datatrove.utils import word_tokenizers

    own = getattr(word_tokenizers, _LOADER)
    places = [module for name, module in list(sys.modules.items())
              if name.startswith("datatrove.") and getattr(module, _LOADER, None) is own]
    for module in places:
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


def peer_filter(name: str) -> Any:
    """Make datatrove's filter of the same rules, with its defaults."""
    module, kind = FILTERS[name]
    return getattr(importlib.import_module(f"datatrove.pipeline.filters.{module}"), kind)()


def filtered_by_peer(texts: Sequence[str], _: Path) -> list[str]:
    """Filter with datatrove, one filter after the other, as in its own pipelines; return what stays."""
    chain = [peer_filter(name) for name in CHAIN]
    with splitting():
        found: Any = documents(texts)
        for one in chain:
            found = one.run(found)
        return [document.text for document in found]


def deduplicated_by_peer(texts: Sequence[str], folder: Path) -> list[str]:
    """Deduplicate with datatrove, its four stages one after the other; return the ids of the documents that stay."""
    with splitting():
        _sign(documents(texts), folder)
    return [document.id for document in _selected(documents(texts), folder)]


def _sign(found: Iterable[Any], folder: Path) -> None:
    from datatrove.pipeline.dedup import minhash

    step = minhash.MinhashDedupSignature(str(folder / "signatures"), config=_config(), language="en")
    step.run(found, rank=0, world_size=1)


def _selected(found: Iterable[Any], folder: Path) -> Iterable[Any]:
    """Return those of datatrove's documents that are no copies, by the signatures that were written."""
    from datatrove.pipeline.dedup import minhash

    config = _config()
    buckets = minhash.MinhashDedupBuckets(str(folder / "signatures"), str(folder / "buckets"), config=config)
    for bucket in range(BANDS):
        buckets.run(None, rank=bucket, world_size=BANDS)
    minhash.MinhashDedupCluster(str(folder / "buckets"), str(folder / "remove"), config=config).run(None, 0, 1)
    kept: Iterable[Any] = minhash.MinhashDedupFilter(str(folder / "remove")).run(found, rank=0, world_size=1)
    return kept


def _config() -> Any:
    from datatrove.pipeline.dedup import minhash

    return minhash.MinhashConfig(n_grams=SHINGLE, num_buckets=BANDS, hashes_per_bucket=ROWS)


def cleaned_by_peer(inputs: Path, folder: Path) -> list[str]:
    """Clean a folder of Parquet files with the stages of datatrove's FineWeb example; return files and rows of the
    documents that stay. What filters keep is written, and read again for signatures and for the last filter."""
    from datatrove.pipeline.formatters import FTFYFormatter, PIIFormatter
    from datatrove.pipeline.readers import ParquetReader
    from datatrove.pipeline.writers import ParquetWriter

    def read(where: Path) -> Any:
        return ParquetReader(str(where)).run(rank=0, world_size=1)

    def writer(name: str) -> Any:
        return ParquetWriter(str(folder / name), compression=COMPRESSION)

    with splitting():
        found: Any = read(inputs)
        for one in (FTFYFormatter(), *map(peer_filter, CHAIN), writer("filtered")):
            found = one.run(found, rank=0, world_size=1)
        for _ in found:
            pass
        _sign(read(folder / "filtered"), folder)
    last: Any = PIIFormatter().run(_selected(read(folder / "filtered"), folder), rank=0, world_size=1)
    return [document.id for document in writer("out").run(last, rank=0, world_size=1)]


@cache
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


def repeated_texts(megabytes: float) -> list[str]:
    """Return English documents of so many MB: the real ones, then again with their paragraphs in other orders."""
    texts = [text for text in dict.fromkeys(real_texts()) if not is_han(text)]
    rng, found, size = random.Random(0), [], 0.0
    while texts and size < megabytes:
        for text in rng.sample(texts, len(texts)):
            paragraphs = text.split("\n\n")
            rng.shuffle(paragraphs)
            found.append("\n\n".join(paragraphs) if size else text)
            size += len(text.encode()) / 1e6
    return found
