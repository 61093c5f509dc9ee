"""Facts of a relation in several patterns: the object that a model finds likeliest, and whether wording changes it."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.statistics.intervals import mean
from argosy.core.statistics.metric import Metric, probability, share
from argosy.corpus.data.jsonl import parse_lines
from argosy.evidence.results.items import digest
from argosy.evidence.results.suite import locate
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import problem
from probes.kinds import Measurement, Probe, Scope
from probes.measures import branch_scores, closed_set

SUBJECT, OBJECT = "[X]", "[Y]"


class Relation(Config):
    """Facts of one kind, and sentences that say them."""

    name: str = Field(min_length=1)
    patterns: tuple[str, ...] = Field(min_length=1)
    """sentences with [X] and [Y], each once"""
    facts: tuple[tuple[str, str], ...] = Field(min_length=2)
    """pairs of texts in place of [X] and [Y]"""

    def check_fields(self) -> None:
        for pattern in self.patterns:
            if not _is_pattern(pattern):
                raise ValueError(f"patterns has {pattern!r}; allowed: a text with {SUBJECT} and {OBJECT}, each once")


@dataclass(frozen=True)
class Question:
    """A fact in every pattern of its relation; `candidates[0]` is its object, the others are wrong."""

    relation: str
    subject: str
    patterns: tuple[str, ...]
    candidates: tuple[str, ...]

    def sentences(self) -> list[list[str]]:
        """Make, for each pattern, the sentence with each candidate."""
        return [[fill(pattern, self.subject, each) for each in self.candidates] for pattern in self.patterns]


def fill(pattern: str, subject: str, object_: str) -> str:
    """Fill in a pattern; the space that some of ParaRel's patterns have before their full stop is taken out."""
    parts = re.split(r"(\[[XY]\])", re.sub(r"\s+([.,;])", r"\1", pattern))
    return "".join({SUBJECT: subject, OBJECT: object_}.get(part, part) for part in parts)


def questions(relation: Relation, seed: int, *, facts: int, patterns: int, candidates: int) -> list[Question]:
    """Draw up to `facts` facts in up to `patterns` patterns, each with up to `candidates` objects (0 = all).

    All are drawn by the seed. Another object that is right for the same subject is no candidate (BEAR's rule: one
    answer of a closed set). A fact that has no wrong candidate left is left out."""
    right: dict[str, set[str]] = defaultdict(set)
    for subject, object_ in relation.facts:
        right[subject].add(object_)
    objects = sorted({object_ for _, object_ in relation.facts})
    known = sorted(set(relation.facts))
    rng = Random(f"{seed}/{relation.name}")
    chosen = sorted(rng.sample(known, min(facts or len(known), len(known))))
    worded = tuple(_some(list(dict.fromkeys(relation.patterns)), patterns, rng))
    result = []
    for subject, object_ in chosen:
        wrong = [other for other in objects if other not in right[subject]]
        wrong = _some(wrong, candidates - 1 if candidates else 0, Random(f"{seed}/{relation.name}/{subject}/{object_}"))
        if wrong:
            result.append(Question(relation.name, subject, worded, (object_, *wrong)))
    return result


def read_relations(folder: Path, names: Iterable[str], left_out: Counter[str]) -> list[Relation]:
    """Read relations of JSONL files, in any layout: of one name, a file whose lines have `pattern` and one whose lines
    have `sub_label` and `obj_label` (ParaRel, Elazar et al. 2021: graphs_json/P36.jsonl and trex_lms_vocab/P36.jsonl).

    `names`: of the relations to read, in this order; nothing: all that have both. `left_out`: lines and files that are
    not used, counted here by reason. Raises InputError: a named relation lacks patterns or facts, or none is there."""
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
    for record in parse_lines(file, lambda _, record: record, left_out):
        pattern, subject, object_ = (record.get(key) for key in ("pattern", "sub_label", "obj_label"))
        if isinstance(pattern, str) and _is_pattern(pattern):
            patterns.append(pattern)
        elif isinstance(subject, str) and isinstance(object_, str) and subject and object_:
            facts.append((subject, object_))
        else:
            left_out["no pattern with [X] and [Y], no sub_label with obj_label"] += 1


def _is_pattern(text: str) -> bool:
    return text.count(SUBJECT) == 1 and text.count(OBJECT) == 1


def _some(values: list[str], most: int, rng: Random) -> list[str]:
    """Draw up to `most` values (0 = all), in their order."""
    if not most or len(values) <= most:
        return values
    return [values[index] for index in sorted(rng.sample(range(len(values)), most))]


EACH = ("acc", "consistency", "consistent_acc")  # of each relation


class RelationProbe(Probe):
    """The likeliest of all objects of a relation, by the log-probability of the whole sentence (BEAR, Wiland et al.
    2024), over the patterns of ParaRel (Elazar et al. 2021).

    Measures: acc (over facts and patterns), acc_byte (by the candidate's UTF-8 byte), consistency (share of pairs of
    patterns that choose the same object, right or wrong; Elazar et al.'s), consistent_acc (facts that are right in
    every pattern), prob (the right one's share of the candidates' probability), chance (of a guesser), same_answer
    (how often the object that a relation's patterns choose most is chosen: 1 is a model that always says the same).
    Of each relation too: `<relation>/acc`, consistency, consistent_acc. Errors are clustered by subject."""

    kind: ClassVar[str] = "relation"
    declared: ClassVar[Mapping[str, Metric]] = {
        "acc": share(), "acc_byte": share(minor=True), "consistency": share(minor=True), "consistent_acc": share(),
        "prob": probability(), "chance": probability("neither", minor=True), "same_answer": probability("neither"),
    }  # fmt: skip
    relations: tuple[Relation, ...] = ()
    """written out"""
    file: str = ""
    """a folder with ParaRel's files"""
    names: tuple[str, ...] = ()
    """relations of `file` that are used; empty: all"""
    most: int = Field(30, ge=1)
    """facts of a relation, drawn by the seed"""
    patterns: int = Field(0, ge=0)
    """patterns of a fact (0 = all), drawn by the seed"""
    candidates: int = Field(0, ge=0)
    """candidates of a fact (0 = all), drawn by the seed"""

    def check_fields(self) -> None:
        if bool(self.relations) == bool(self.file):
            raise ValueError("give one of relations, file")
        if self.candidates == 1:
            raise ValueError("candidates is 1; allowed: 0 (all) or at least 2, the right one among them")

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        result = Measurement()
        facts = list(self._questions(scope, result))
        if not facts:
            result.left_out["no fact has a wrong candidate"] += 1
            return result
        scores = iter(branch_scores(model, [group for question in facts for group in question.sentences()]))
        for question in facts:
            own = [next(scores) for _ in question.patterns]
            if why := problem(chain(*own)):
                result.left_out[why] += 1
            else:
                result.rows.append(_row(question, [[score.logprob for score in each] for each in own]))
        self._summarize(result)
        return result

    def _questions(self, scope: Scope, result: Measurement) -> Iterator[Question]:
        relations: Sequence[Relation] = self.relations
        if self.file:
            relations = read_relations(locate(self.file, scope.data, "relations"), self.names, result.left_out)
        for relation in relations:
            most = min(self.most, scope.limit or self.most)
            yield from questions(relation, scope.seed, facts=most, patterns=self.patterns, candidates=self.candidates)

    def _summarize(self, result: Measurement) -> None:
        relations = sorted({str(row["group"]) for row in result.rows})
        result.add_means(self.declared)
        for name in relations if len(relations) > 1 else ():
            result.add_means(EACH, [row for row in result.rows if row["group"] == name], name)
        if result.rows:
            result.measures["same_answer"] = mean([_same_answer(result.rows, name) for name in relations])


def _row(question: Question, values: list[list[float]]) -> dict[str, Any]:
    chosen, shares = closed_set(question.candidates, values)
    pairs = [a == b for a, b in combinations(chosen, 2)]
    row: dict[str, Any] = {
        "id": f"{question.relation}/{question.subject}/{question.candidates[0]}",
        "group": question.relation,
        "asked": digest(question.patterns, question.subject, question.candidates),
        "cluster": f"{question.relation}/{question.subject}",
        **shares,
        "consistent_acc": float(set(chosen) == {0}),
        "chance": 1 / len(question.candidates),
        "texts": [question.candidates[index] for index in chosen],  # each pattern's choice
        "scores": [[round(v[0], 5), round(max(v[1:]), 5)] for v in values],  # the right one, the best wrong one
    }
    return row | ({"consistency": sum(pairs) / len(pairs)} if pairs else {})


def _same_answer(rows: Sequence[dict[str, Any]], relation: str) -> float:
    answers = Counter(text for row in rows if row["group"] == relation for text in row["texts"])
    return max(answers.values()) / answers.total()
