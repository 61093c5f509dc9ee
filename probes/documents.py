"""Documents of a user's files for probes: each a list of texts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from argosy.documents.files import JSONL, format_of, input_files, open_binary
from argosy.documents.parse import ParseError, check_text, parse_object, read_lines
from argosy.errors import InputError


def read_texts(path: Path, left_out: Counter[str]) -> list[tuple[str, list[str]]]:
    """(id, texts) of each line of JSONL with `text` or a list `texts`; a .txt or .md file is one document.

    Args:
        left_out: why lines are no documents, counted here.

    Raises:
        InputError: there is no document, or the file is of another format.
    """
    found: list[tuple[str, list[str]]] = []
    for file in input_files(path)[0]:
        if format_of(file) in JSONL:
            found += _lines(file, left_out)
        elif format_of(file) in (".txt", ".md"):
            try:
                text = file.read_text(encoding="utf-8-sig").strip()
            except UnicodeDecodeError:
                left_out["invalid UTF-8"] += 1
                continue
            found += [(file.name, [text])] if text else []
        else:
            raise InputError(f"{file} cannot be probed; allowed: .jsonl, .jsonl.gz, .jsonl.zst, .txt, .md")
    if not found:
        raise InputError(f"{path} has no text: {dict(left_out) or 'its files are empty'}; lines of JSONL need `text`")
    return found


def _lines(file: Path, left_out: Counter[str]) -> list[tuple[str, list[str]]]:
    found = []
    with open_binary(file) as stream:
        for number, raw, problem in read_lines(stream):
            try:
                if problem:
                    raise ParseError(problem)
                record = parse_object(raw)
                texts = record.get("texts", None)
                if texts is None:
                    texts = [check_text(record, "text")]
                elif not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts):
                    raise ParseError("texts is not a list of texts")
                found.append((f"{file.name}:{number}", texts))
            except ParseError as error:
                left_out[str(error)] += 1
    return found
