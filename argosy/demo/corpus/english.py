"""English prose that ships with Python: the language reference's topics and docstrings."""

import ast
from collections.abc import Iterable, Iterator
from pydoc_data.topics import topics
from random import Random

from argosy.demo.corpus.records import DocumentRecord, until_bytes
from argosy.demo.corpus.stdlib import LICENSE, SourceFile, source_files

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def english_documents(
    seed: str | int, max_bytes: int, min_chars: int = 200, max_chars: int = 2000
) -> Iterator[DocumentRecord]:
    """Topics and docstrings in turn, in paragraphs packed to at most about `max_chars`."""
    yield from until_bytes(_in_turn(_topics(seed, max_chars), _docstrings(seed, max_chars), min_chars), max_bytes)


def _in_turn(
    first: Iterator[DocumentRecord], second: Iterator[DocumentRecord], min_chars: int
) -> Iterator[DocumentRecord]:
    streams = [first, second]
    while streams:
        stream = streams.pop(0)
        record = next((record for record in stream if len(record["text"]) >= min_chars), None)
        if record is not None:
            streams.append(stream)
            yield record


def _topics(seed: str | int, max_chars: int) -> Iterator[DocumentRecord]:
    names = sorted(topics)
    Random(f"topics/{seed}").shuffle(names)
    for name in names:
        for index, text in enumerate(_packed(topics[name].split("\n\n"), max_chars)):
            yield _record(f"topic-{name}-{index}", text, f"pydoc topic {name}")


def _docstrings(seed: str | int, max_chars: int) -> Iterator[DocumentRecord]:
    for file in source_files(seed):
        for index, text in enumerate(_packed(_prose(file), max_chars)):
            yield _record(f"docstring-{file.name}-{index}", text, f"docstrings of {file.name}")


def _prose(file: SourceFile) -> Iterator[str]:
    for node in ast.walk(file.tree):
        text = ast.get_docstring(node) if isinstance(node, _DOCUMENTED) else None
        # Doctests are code, and short docstrings say little.
        if text and len(text) >= 80 and text.count(">>>") <= 2:
            yield text


def _packed(parts: Iterable[str], max_chars: int) -> Iterator[str]:
    """Consecutive parts joined by blank lines up to `max_chars`; a longer part stays whole."""
    packed = ""
    for part in parts:
        if packed and len(packed) + len(part) + 2 > max_chars:
            yield packed
            packed = ""
        packed = f"{packed}\n\n{part.rstrip()}".strip("\n")
    if packed:
        yield packed


def _record(name: str, text: str, source: str) -> DocumentRecord:
    metadata = {"license": LICENSE}
    return {"id": f"en-{name}", "text": text, "channel": "en", "lang": "en", "source": source, "metadata": metadata}
