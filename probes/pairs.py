"""Pairs of texts, one right and one wrong, and where they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from argosy.config import Config
from argosy.documents.files import open_binary
from argosy.documents.parse import ParseError, parse_object, read_lines
from argosy.errors import InputError

_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


class Pair(Config):
    """A text that is right and one that is wrong.

    `context` stands before both, `after` behind both (its probability alone is Trinh & Le's partial score, 2018).
    `domain` replaces the context where the texts' own likelihood is measured (PMI; Holtzman et al. 2021).
    """

    good: str = Field(min_length=1)
    bad: str = Field(min_length=1)
    context: str = ""
    after: str = ""
    domain: str | None = None


@dataclass(frozen=True)
class Case:
    """A pair to be scored. Pairs of one `cluster` are related; `group` is what results are also given for."""

    pair: Pair
    cluster: str
    group: str = ""


def read_pairs(path: Path, group_by: str, most: int | None, left_out: Counter[str]) -> list[Case]:
    """Pairs of a JSONL file, or of all files below a folder; the first `most` of each file.

    A line has good and bad, or BLiMP's sentence_good and sentence_bad; also context, after and domain.

    Args:
        group_by: key of a line whose value is the group ("" = none).
        left_out: why lines are no pairs, counted here.

    Raises:
        InputError: there is no pair.
    """
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.name.endswith(_SUFFIXES))
    cases: list[Case] = []
    for file in files:
        own = [case for case in _read(file, group_by, left_out) if case is not None]
        cases += own[:most]
    if not cases:
        raise InputError(f"{path} has no pair; its lines (JSONL) need good and bad, or sentence_good and sentence_bad")
    return cases


def _read(file: Path, group_by: str, left_out: Counter[str]) -> Iterator[Case | None]:
    with open_binary(file) as stream:
        for number, raw, problem in read_lines(stream):
            try:
                if problem:
                    raise ParseError(problem)
                record = parse_object(raw)
                yield Case(_pair(record), f"{file.name}:{number}", str(record.get(group_by, "")) if group_by else "")
            except ParseError as error:
                left_out[str(error)] += 1


def _pair(record: Mapping[str, Any]) -> Pair:
    good = record.get("good", record.get("sentence_good"))
    bad = record.get("bad", record.get("sentence_bad"))
    if not (isinstance(good, str) and isinstance(bad, str) and good and bad):
        raise ParseError("no pair of sentences")
    others = {name: record[name] for name in ("context", "after", "domain") if record.get(name) is not None}
    if not all(isinstance(value, str) for value in others.values()):
        raise ParseError("context, after or domain is not a text")
    return Pair(good=good, bad=bad, **others)
