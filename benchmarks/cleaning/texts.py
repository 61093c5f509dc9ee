"""Real texts of the shared test data, as many of them as a measure needs."""

import gzip
import json
import random
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from argosy.corpus.cleaning.batch import Batch, batches
from argosy.corpus.data.schemas import Document
from argosy.corpus.text.scripts import is_han
from benchmarks.side_by_side import shared
from steps.score import ScoreConfig

FOLDERS = ("zh_d2l", "en_rustbook", "zh_rustbook", "dolma_fixtures", "data_juicer_demo", "llamafactory_demo")


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
