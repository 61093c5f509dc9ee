"""English prose and code of Python 3.11.7's standard library (`material/PYTHON-LICENSE.txt`), shipped, so that every
machine has the same.

Prose is pydoc's topics and docstrings of 80 characters and more, packed to about 2,000; code is a file's consecutive
definitions up to 2,500 characters, a larger class cut between its methods, under a comment that names the file.
"""

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from itertools import chain, zip_longest
from random import Random

from argosy.data.schemas import Document

MOST = 1_400_000  # bytes of prose, or of code, that may be wanted: there is a little more


@cache
def _material() -> bytes:
    return (resources.files("argosy.demo") / "material/python.jsonl.gz").read_bytes()


def digest() -> str:
    """Return the SHA-256 of the texts."""
    return hashlib.sha256(_material()).hexdigest()


def english_documents(seed: str | int, max_bytes: int) -> Iterator[Document]:
    """Make documents of pydoc's topics and of docstrings in turn, in an order that depends on `seed`."""
    pairs = zip_longest(_documents("topic", "en", seed), _documents("docstring", "en", seed))
    yield from _until_bytes((each for each in chain.from_iterable(pairs) if each is not None), max_bytes)


def code_documents(seed: str | int, max_bytes: int) -> Iterator[Document]:
    """Make documents of code, in an order of the files that depends on `seed`."""
    yield from _until_bytes(_documents("code", "code", seed), max_bytes)


def _documents(kind: str, channel: str, seed: str | int) -> Iterator[Document]:
    every = map(json.loads, gzip.decompress(_material()).splitlines())
    records = [record for record in every if record["kind"] == kind]
    Random(f"{kind}/{seed}").shuffle(records)
    for record in records:
        source = f"{kind} {record['name']}"
        for index, text in enumerate(record["texts"]):
            name = f"{channel}-{kind}-{record['name']}-{index}"
            yield Document(name, text, channel, "en", source, {"license": "PSF-2.0"})


def _until_bytes(documents: Iterable[Document], max_bytes: int) -> Iterator[Document]:
    """Yield documents as long as their texts together stay within `max_bytes` of UTF-8."""
    total = 0
    for document in documents:
        total += len(document.text.encode())
        if total > max_bytes:
            return
        yield document
