"""English prose and code of Python's standard library, read and parsed but never imported."""

import ast
import os
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from argosy.data.schemas import Document

LICENSE = "PSF-2.0"

# Third-party code, tests and generated tables.
_LEFT_OUT = frozenset(
    ("site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "pydoc_data", "encodings")
)
# Files that differ between machines with the same Python.
_LOCAL = ("_sysconfigdata", "sitecustomize", "config-")


@dataclass(frozen=True)
class SourceFile:
    """A parsed file; `name` is its path below the standard library, with slashes."""

    name: str
    text: str
    tree: ast.Module


def source_files(seed: str | int) -> Iterator[SourceFile]:
    """Parse all files, in an order that depends on `seed` and the Python version alone."""
    root = Path(sysconfig.get_path("stdlib"))
    names = list(_names(root))
    Random(f"stdlib/{seed}").shuffle(names)
    for name in names:
        try:
            text = (root / name).read_text(encoding="utf-8")
            yield SourceFile(name, text, ast.parse(text))
        except (UnicodeDecodeError, SyntaxError):
            continue


@cache
def _names(root: Path) -> tuple[str, ...]:
    """List the paths below `root` of all Python files but those left out, sorted."""
    found: list[str] = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT and not name.startswith(_LOCAL)]
        below = Path(folder).relative_to(root)
        found += [(below / name).as_posix() for name in files if name.endswith(".py") and not name.startswith(_LOCAL)]
    return tuple(sorted(found))


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def english_documents(
    seed: str | int, max_bytes: int, min_chars: int = 200, max_chars: int = 2000
) -> Iterator[Document]:
    """Make documents of pydoc's topics and of docstrings in turn: paragraphs packed to about `max_chars` at most."""
    yield from _until_bytes(_in_turn(_topics(seed, max_chars), _docstrings(seed, max_chars), min_chars), max_bytes)


def _in_turn(first: Iterator[Document], second: Iterator[Document], min_chars: int) -> Iterator[Document]:
    streams = [first, second]
    while streams:
        stream = streams.pop(0)
        document = next((document for document in stream if len(document.text) >= min_chars), None)
        if document is not None:
            streams.append(stream)
            yield document


def _topics(seed: str | int, max_chars: int) -> Iterator[Document]:
    from pydoc_data.topics import topics  # half a megabyte, for the data step alone

    names = sorted(topics)
    Random(f"topics/{seed}").shuffle(names)
    for name in names:
        for index, text in enumerate(_packed(topics[name].split("\n\n"), max_chars)):
            yield _record(f"topic-{name}-{index}", text, f"pydoc topic {name}")


def _docstrings(seed: str | int, max_chars: int) -> Iterator[Document]:
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
    """Join consecutive parts by blank lines up to `max_chars`; a longer part stays whole."""
    packed = ""
    for part in parts:
        if packed and len(packed) + len(part) + 2 > max_chars:
            yield packed
            packed = ""
        packed = f"{packed}\n\n{part.rstrip()}".strip("\n")
    if packed:
        yield packed


def _record(name: str, text: str, source: str) -> Document:
    return Document(f"en-{name}", text, "en", "en", source, {"license": LICENSE})


def code_documents(
    seed: str | int, max_bytes: int, min_chars: int = 200, max_chars: int = 2500
) -> Iterator[Document]:
    """Make documents of a file's consecutive definitions up to `max_chars`, under a comment that names the file.

    A larger class is split between its methods, each part under the class's first line; a part that is still over
    `max_chars` (mostly a table) is left out.
    """
    yield from _until_bytes(_records(seed, min_chars, max_chars), max_bytes)


def _records(seed: str | int, min_chars: int, max_chars: int) -> Iterator[Document]:
    for file in source_files(seed):
        for index, piece in enumerate(_pieces(file, max_chars)):
            if min_chars <= len(piece) <= max_chars:
                text = f"# {file.name}\n{piece}\n"
                yield Document(f"code-{file.name}-{index}", text, "code", "en", file.name, {"license": LICENSE})


def _pieces(file: SourceFile, max_chars: int) -> Iterator[str]:
    lines = file.text.splitlines()
    packed = ""
    for node, text in _spans(lines, file.tree.body, 0):
        if packed and len(packed) + len(text) + 1 > max_chars:
            yield packed.strip("\n")
            packed = ""
        if isinstance(node, ast.ClassDef) and len(text) > max_chars:
            yield from _parts_of_class(lines, node, max_chars)
        else:
            packed += text + "\n"
    if packed.strip():
        yield packed.strip("\n")


def _parts_of_class(lines: list[str], node: ast.ClassDef, max_chars: int) -> Iterator[str]:
    start = _first_line(node.body[0]) - 1
    head = "\n".join(lines[node.lineno - 1 : start]).rstrip() or lines[node.lineno - 1]
    packed = ""
    for _, text in _spans(lines, node.body, start):
        if packed and len(head) + len(packed) + len(text) + 2 > max_chars:
            yield f"{head}\n{packed}".rstrip("\n")
            packed = ""
        packed += text + "\n"
    yield f"{head}\n{packed}".rstrip("\n")


def _spans(lines: list[str], body: list[ast.stmt], start: int) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement with its source lines, from the end of the one before: comments stay with it."""
    for node in body:
        end = node.end_lineno or node.lineno
        if end > start:
            yield node, "\n".join(lines[start:end])
            start = end


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _until_bytes(documents: Iterable[Document], max_bytes: int) -> Iterator[Document]:
    """Yield documents as long as their texts together stay within `max_bytes` of UTF-8."""
    total = 0
    for document in documents:
        total += len(document.text.encode())
        if total > max_bytes:
            return
        yield document
