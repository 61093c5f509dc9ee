"""Relations between things: facts (subject, object) and patterns that say them, such as "[X] was born in [Y]."."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Self

from pydantic import Field, model_validator

from argosy.config import Config
from argosy.documents.parse import ParseError, parse_object, read_lines
from argosy.errors import InputError

SUBJECT, OBJECT = "[X]", "[Y]"


class Relation(Config):
    """`patterns`: sentences with [X] and [Y], each once. `facts`: pairs of what is put there."""

    name: str = Field(min_length=1)
    patterns: tuple[str, ...] = Field(min_length=1)
    facts: tuple[tuple[str, str], ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for pattern in self.patterns:
            if not _is_pattern(pattern):
                raise ValueError(f"patterns has {pattern!r}; allowed: a text with {SUBJECT} and {OBJECT}, each once")
        return self


@dataclass(frozen=True)
class Question:
    """A fact in every pattern of its relation; `candidates[0]` is its object, the others are wrong."""

    relation: str
    subject: str
    patterns: tuple[str, ...]
    candidates: tuple[str, ...]

    def sentences(self) -> list[list[str]]:
        """For each pattern the sentence with each candidate."""
        return [[fill(pattern, self.subject, each) for each in self.candidates] for pattern in self.patterns]


def fill(pattern: str, subject: str, object_: str) -> str:
    """The sentence; the space that some of ParaRel's patterns have before their full stop is taken out."""
    parts = re.split(r"(\[[XY]\])", re.sub(r"\s+([.,;])", r"\1", pattern))
    return "".join({SUBJECT: subject, OBJECT: object_}.get(part, part) for part in parts)


def questions(relation: Relation, seed: int, *, facts: int, patterns: int, candidates: int) -> list[Question]:
    """Up to `facts` facts in up to `patterns` patterns, each with up to `candidates` objects of the relation (0 = all).

    All are drawn by the seed. Another object that is right for the same subject is no candidate (BEAR's rule: one
    answer of a closed set). A fact that has no wrong candidate left is left out.
    """
    right: dict[str, set[str]] = defaultdict(set)
    for subject, object_ in relation.facts:
        right[subject].add(object_)
    objects = sorted({object_ for _, object_ in relation.facts})
    known = sorted(set(relation.facts))
    rng = Random(f"{seed}/{relation.name}")
    chosen = sorted(rng.sample(known, min(facts or len(known), len(known))))
    worded = tuple(_some(list(dict.fromkeys(relation.patterns)), patterns, rng))
    found = []
    for subject, object_ in chosen:
        wrong = [other for other in objects if other not in right[subject]]
        wrong = _some(wrong, candidates - 1 if candidates else 0, Random(f"{seed}/{relation.name}/{subject}/{object_}"))
        if wrong:
            found.append(Question(relation.name, subject, worded, (object_, *wrong)))
    return found


def read_relations(folder: Path, names: Iterable[str], left_out: Counter[str]) -> list[Relation]:
    """Relations of JSONL files, in any layout: of one name, a file whose lines have `pattern` and one whose lines have
    `sub_label` and `obj_label` (ParaRel, Elazar et al. 2021: graphs_json/P36.jsonl and trex_lms_vocab/P36.jsonl).

    Args:
        names: those that are wanted, in this order; nothing: all that have both.
        left_out: why lines and files are not used, counted here.

    Raises:
        InputError: a wanted relation lacks patterns or facts, or there is none at all.
    """
    patterns: dict[str, list[str]] = defaultdict(list)
    facts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    wanted = list(names)
    for file in sorted(folder.rglob("*.jsonl")):
        name = file.stem.rpartition("__")[2]
        if not wanted or name in wanted:
            _read(file, patterns[name], facts[name], left_out)
    both = [name for name in wanted or sorted({*patterns, *facts}) if patterns[name] and len(facts[name]) > 1]
    for name in wanted or sorted({*patterns, *facts}):
        if name not in both and wanted:
            lacking = "facts (with sub_label and obj_label)" if patterns[name] else "patterns (with pattern)"
            raise InputError(f"{folder} has no {lacking} for the relation {name!r}")
        if name not in both:
            left_out["relation without patterns or facts"] += 1
    if not both:
        raise InputError(f"{folder} has no relation: it needs <name>.jsonl files with pattern, and with sub_label and "
                         "obj_label (ParaRel's)")
    return [Relation(name=name, patterns=tuple(patterns[name]), facts=tuple(facts[name])) for name in both]


def _read(file: Path, patterns: list[str], facts: list[tuple[str, str]], left_out: Counter[str]) -> None:
    for record in _records(file, left_out):
        pattern, subject, object_ = (record.get(key) for key in ("pattern", "sub_label", "obj_label"))
        if isinstance(pattern, str) and _is_pattern(pattern):
            patterns.append(pattern)
        elif isinstance(subject, str) and isinstance(object_, str) and subject and object_:
            facts.append((subject, object_))
        else:
            left_out["no pattern with [X] and [Y], no sub_label with obj_label"] += 1


def _records(file: Path, left_out: Counter[str]) -> Iterator[dict[str, Any]]:
    with open(file, "rb") as stream:
        for _, raw, problem in read_lines(stream):
            try:
                if problem:
                    raise ParseError(problem)
                yield parse_object(raw)
            except ParseError as error:
                left_out[str(error)] += 1


def _is_pattern(text: str) -> bool:
    return text.count(SUBJECT) == 1 and text.count(OBJECT) == 1


def _some(values: list[str], most: int, rng: Random) -> list[str]:
    """Up to `most` of them (0 = all), in their order."""
    if not most or len(values) <= most:
        return values
    return [values[index] for index in sorted(rng.sample(range(len(values)), most))]
