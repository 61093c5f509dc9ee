"""Facts of the data step as cloze prompts and statements, in the wordings that the demo's corpus is written with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

from pydantic import Field

from argosy.config import Config
from argosy.demo.facts import RELATIONS, Fact, distractors
from argosy.demo.phrasings import wordings
from argosy.documents.jsonl import read_jsonl
from argosy.errors import InputError
from probes.probe import Scope


class FactSource(Config):
    """Which facts of facts.jsonl, and how they are worded.

    `split`: those that quizzes in training ask about (taught), the others (benchmark), or all. `most`: facts, drawn
    by the seed. `paraphrases`: wordings of each. `wrong`: wrong answers, of the same relation and split.
    """

    lang: Literal["en", "zh"] = "en"
    split: Literal["taught", "benchmark", "all"] = "benchmark"
    most: int = Field(120, ge=1)
    paraphrases: int = Field(3, ge=1)
    wrong: int = Field(3, ge=1)


@dataclass(frozen=True)
class ClozeFact:
    """A fact in several wordings; `candidates[0]` is its answer, `gap` stands between a prefix and a candidate."""

    id: str
    wordings: tuple[tuple[str, str], ...]  # text before and after the answer
    candidates: tuple[str, ...]
    gap: str

    @property
    def prefixes(self) -> list[str]:
        """The wordings up to the answer."""
        return [before for before, _ in self.wordings]

    def statements(self) -> list[list[str]]:
        """For each wording the right statement, then the wrong ones."""
        return [[before + self.gap + c + after for c in self.candidates] for before, after in self.wordings]


def read_facts(source: FactSource, scope: Scope) -> tuple[list[ClozeFact], Counter[str]]:
    """The facts of a source, a function of the file, the source and the seed; and why others are not among them.

    Raises:
        InputError: no data step was given, or its facts.jsonl is absent or has none that can be used.
    """
    if scope.data is None:
        raise InputError("probes of facts need `data`: the data step's directory, with facts.jsonl (argosy "
                         "evaluate --data DIR)")
    path = scope.data / "facts.jsonl"
    left_out: Counter[str] = Counter()
    facts = list(_parse(path, source, left_out))
    rng = Random(f"{scope.seed}/{source.split}")
    chosen = sorted(rng.sample(facts, min(source.most, scope.limit or source.most, len(facts))), key=lambda f: f.id)
    found = [made for fact in chosen if (made := _cloze(fact, facts, source, scope.seed, left_out)) is not None]
    if not found:
        raise InputError(f"{path} has no fact for split {source.split!r} that can be asked: {dict(left_out)}")
    return found, left_out


def _parse(path: Path, source: FactSource, left_out: Counter[str]) -> list[Fact]:
    facts = []
    for record in read_jsonl(path):
        try:
            if source.split == "all" or bool(record["taught"]) is (source.split == "taught"):
                facts.append(_fact(record))
        except (KeyError, TypeError):
            left_out["no id, relation, subject, answer or taught"] += 1
    known = [fact for fact in facts if fact.relation in RELATIONS]
    if len(known) < len(facts):
        left_out["relation without wordings"] += len(facts) - len(known)
    return known


def _fact(record: Mapping[str, Any]) -> Fact:
    return Fact(str(record["id"]), str(record["relation"]), dict(record["subject"]), dict(record["answer"]))


def _cloze(
    fact: Fact, facts: list[Fact], source: FactSource, seed: int, left_out: Counter[str]
) -> ClozeFact | None:
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
    """What stands before and after the answer; in English there is a space before it, which is not in the first."""
    before, _, after = template.partition("{answer}")
    before = before.format(subject=subject)
    if lang == "en":
        before = before[0].upper() + before[1:].rstrip()
    return before, after.format(subject=subject)
