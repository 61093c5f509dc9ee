"""Files that probes read: documents, pairs of texts, and the data step's facts as cloze prompts."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.corpus.data.jsonl import JSONL, parse_lines, read_jsonl
from argosy.corpus.data.listing import input_files
from argosy.corpus.data.schemas import ParseError, check_text
from argosy.corpus.demo.facts import RELATIONS, Fact, distractors, wordings

Texts = tuple[str, list[str]]  # id of a document, its texts


def read_texts(path: Path, left_out: Counter[str]) -> list[Texts]:
    """Read (id, texts) of each line of JSONL with `text` or a list `texts`; a .txt or .md file is one document.

    `left_out`: lines that are no documents, counted here by reason. Raises InputError: there is no document, or the
    file is of another format."""
    documents: list[Texts] = []
    for file in input_files(path)[0]:
        if file.name.lower().endswith(JSONL):
            documents += [(f"{file.name}:{number}", texts) for number, texts in parse_lines(file, _texts, left_out)]
        elif file.name.lower().endswith((".txt", ".md")):
            try:
                text = file.read_text(encoding="utf-8-sig").strip()
            except UnicodeDecodeError:
                left_out["invalid UTF-8"] += 1
                continue
            documents += [(file.name, [text])] if text else []
        else:
            raise InputError(f"{file} cannot be probed; allowed: .jsonl, .jsonl.gz, .jsonl.zst, .txt, .md")
    if not documents:
        raise InputError(f"{path} has no text: {dict(left_out) or 'its files are empty'}; lines of JSONL need `text`")
    return documents


def _texts(number: int, record: Mapping[str, Any]) -> tuple[int, list[str]]:
    texts = record.get("texts")
    if texts is None:
        return number, [check_text(record, "text")]
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise ParseError("texts is not a list of texts")
    return number, texts


class Pair(Config):
    """A text that is right and one that is wrong."""

    good: str = Field(min_length=1)
    bad: str = Field(min_length=1)
    context: str = ""
    """stands before both"""
    after: str = ""
    """stands behind both; its probability alone is Trinh & Le's partial score (2018)"""
    domain: str | None = None
    """replaces the context where the texts' own likelihood is measured (PMI; Holtzman et al. 2021)"""


@dataclass(frozen=True)
class Case:
    """A pair to be scored."""

    pair: Pair
    cluster: str
    """equal for related pairs"""
    group: str = ""
    """group that results are also given for"""


def read_pairs(path: Path, group_by: str, most: int | None, left_out: Counter[str]) -> list[Case]:
    """Read pairs of a JSONL file, or of all files below a folder; the first `most` of each file.

    A line has good and bad, or BLiMP's sentence_good and sentence_bad; also context, after and domain. `group_by`:
    key of a line whose value is the group ("" = none). `left_out`: lines that are no pairs, counted here by reason.
    Raises InputError: there is no pair."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.name.endswith(JSONL))
    cases: list[Case] = []
    for file in files:

        def parse(number: int, record: dict[str, Any], name: str = file.name) -> Case:
            return Case(_pair(record), f"{name}:{number}", str(record.get(group_by, "")) if group_by else "")

        cases += list(parse_lines(file, parse, left_out))[:most]
    if not cases:
        raise InputError(f"{path} has no pair; its lines (JSONL) need good and bad, or sentence_good and sentence_bad")
    return cases


def _pair(record: Mapping[str, Any]) -> Pair:
    good = record.get("good", record.get("sentence_good"))
    bad = record.get("bad", record.get("sentence_bad"))
    if not (isinstance(good, str) and isinstance(bad, str) and good and bad):
        raise ParseError("no pair of sentences")
    others = {name: record[name] for name in ("context", "after", "domain") if record.get(name) is not None}
    if not all(isinstance(value, str) for value in others.values()):
        raise ParseError("context, after or domain is not a text")
    return Pair(good=good, bad=bad, **others)


class FactSource(Config):
    """A choice of facts of facts.jsonl and of their wordings."""

    lang: Literal["en", "zh"] = "en"
    split: Literal["taught", "benchmark", "all"] = "benchmark"
    """facts that quizzes in training ask about (taught), the others (benchmark), or all"""
    most: int = Field(120, ge=1)
    """facts, drawn by the seed"""
    paraphrases: int = Field(3, ge=1)
    """wordings of each"""
    wrong: int = Field(3, ge=1)
    """wrong answers, of the same relation and split"""


@dataclass(frozen=True)
class ClozeFact:
    """A fact in several wordings."""

    id: str
    wordings: tuple[tuple[str, str], ...]
    """text before and after the answer"""
    candidates: tuple[str, ...]
    """the first one is the answer"""
    gap: str
    """stands between a prefix and a candidate"""

    @property
    def prefixes(self) -> list[str]:
        return [before for before, _ in self.wordings]

    def statements(self) -> list[list[str]]:
        """Make, for each wording, the right statement, then the wrong ones."""
        return [[before + self.gap + c + after for c in self.candidates] for before, after in self.wordings]


def read_facts(source: FactSource, data: Path | None, seed: int,
               limit: int | None = None) -> tuple[list[ClozeFact], Counter[str]]:
    """Read the facts of a source, a function of the file, the source and the seed; and count the others by reason.

    `data`: the data step's directory. `limit`: the most facts. Raises InputError: no data step was given, or its
    facts.jsonl is absent or has none that can be used."""
    if data is None:
        raise InputError("probes of facts need `data`: the data step's directory, with facts.jsonl (argosy "
                         "evaluate --data DIR)")
    path = data / "facts.jsonl"
    left_out: Counter[str] = Counter()
    facts = list(_facts(path, source, left_out))
    rng = Random(f"{seed}/{source.split}")
    chosen = sorted(rng.sample(facts, min(source.most, limit or source.most, len(facts))), key=lambda f: f.id)
    made = [cloze for fact in chosen if (cloze := _cloze(fact, facts, source, seed, left_out)) is not None]
    if not made:
        raise InputError(f"{path} has no usable fact for split {source.split!r}: {dict(left_out)}")
    return made, left_out


def _facts(path: Path, source: FactSource, left_out: Counter[str]) -> Iterator[Fact]:
    for record in read_jsonl(path):
        try:
            if source.split != "all" and bool(record["taught"]) is not (source.split == "taught"):
                continue
            fact = Fact(str(record["id"]), str(record["relation"]), dict(record["subject"]), dict(record["answer"]))
        except (KeyError, TypeError):
            left_out["no id, relation, subject, answer or taught"] += 1
            continue
        if fact.relation in RELATIONS:
            yield fact
        else:
            left_out["relation without wordings"] += 1


def _cloze(fact: Fact, facts: list[Fact], source: FactSource, seed: int, left_out: Counter[str]) -> ClozeFact | None:
    rng = Random(f"{seed}/{fact.id}")
    try:
        wrong = distractors(fact, facts, rng, source.wrong)
    except ValueError:
        left_out["too few other answers of its relation"] += 1
        return None
    templates = wordings(fact.relation, source.lang, "subject_first")
    chosen = rng.sample(templates, min(source.paraphrases, len(templates)))
    parts = [_split(template, fact.subject[source.lang], source.lang) for template in chosen]
    candidates = (fact.answer[source.lang], *(answer[source.lang] for answer in wrong))
    return ClozeFact(fact.id, tuple(parts), candidates, " " if source.lang == "en" else "")


def _split(template: str, subject: str, lang: str) -> tuple[str, str]:
    """Split a wording around its answer; in English there is a space before it, which is not in the first part."""
    before, _, after = template.partition("{answer}")
    before = before.format(subject=subject)
    if lang == "en":
        before = before[0].upper() + before[1:].rstrip()
    return before, after.format(subject=subject)
