"""Python source: the standard library's functions and classes, split in documents."""

import ast
from collections.abc import Iterator

from argosy.demo.corpus.records import DocumentRecord, until_bytes
from argosy.demo.corpus.stdlib import LICENSE, SourceFile, source_files


def code_documents(
    seed: str | int, max_bytes: int, min_chars: int = 200, max_chars: int = 2500
) -> Iterator[DocumentRecord]:
    """Consecutive definitions of a file up to `max_chars`, under a comment that names the file.

    A larger class is split between its methods, each part under the class's first line; what
    is still over `max_chars` is left out (tables, mostly).
    """
    yield from until_bytes(_records(seed, min_chars, max_chars), max_bytes)


def _records(seed: str | int, min_chars: int, max_chars: int) -> Iterator[DocumentRecord]:
    for file in source_files(seed):
        for index, piece in enumerate(_pieces(file, max_chars)):
            if min_chars <= len(piece) <= max_chars:
                yield {
                    "id": f"code-{file.name}-{index}",
                    "text": f"# {file.name}\n{piece}\n",
                    "channel": "code",
                    "lang": "en",
                    "source": file.name,
                    "metadata": {"license": LICENSE},
                }


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
    """Each statement with its source lines, from the end of the one before: comments stay with it."""
    for node in body:
        end = node.end_lineno or node.lineno
        if end > start:
            yield node, "\n".join(lines[start:end])
            start = end


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
