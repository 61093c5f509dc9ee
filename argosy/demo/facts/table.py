"""The fact tables: one TSV a relation, English and Chinese side by side."""

import re
from dataclasses import dataclass, field
from importlib import resources

LANGS = ("en", "zh")

# Boron and carbon are not in the table of symbols: B and C are also option labels.
RELATIONS = (
    "capital",
    "symbol",
    "state_capital",
    "province_seat",
    "author",
    "originator",
    "artist",
)

_COLUMNS = ["en_subject", "en_answer", "zh_subject", "zh_answer"]


@dataclass(frozen=True)
class Fact:
    """One (subject, relation, answer) in both languages; `id` is "<relation>/<english-slug>"."""

    id: str
    relation: str
    subject: dict[str, str] = field(hash=False)
    answer: dict[str, str] = field(hash=False)


def load_facts() -> list[Fact]:
    """All facts, in the order of RELATIONS and of the rows in each table."""
    return [fact for relation in RELATIONS for fact in _read(relation)]


def _read(relation: str) -> list[Fact]:
    path = resources.files("argosy.demo.facts") / f"{relation}.tsv"
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    if header.split("\t") != _COLUMNS:
        raise ValueError(f"{relation}.tsv: columns are {header!r}, expected {_COLUMNS}")
    return [_fact(relation, line) for line in lines if line]


def _fact(relation: str, line: str) -> Fact:
    en_subject, en_answer, zh_subject, zh_answer = line.split("\t")
    slug = re.sub(r"[^a-z0-9]+", "-", en_subject.removeprefix("the ").lower()).strip("-")
    return Fact(
        id=f"{relation}/{slug}",
        relation=relation,
        subject={"en": en_subject, "zh": zh_subject},
        answer={"en": en_answer, "zh": zh_answer},
    )
