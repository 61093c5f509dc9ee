"""Facts of a relation, said in several patterns: what a model takes to be true, and whether wording changes it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from argosy.evaluation.asked import digest
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.named_files import locate
from argosy.statistics.intervals import mean
from probes.probe import Measured, Probe, Scope
from probes.relations import Question, Relation, questions, read_relations
from probes.sentences import branch_scores

MEASURES = ("acc", "acc_byte", "consistency", "consistent_acc", "prob", "chance")
EACH = ("acc", "consistency", "consistent_acc")  # of each relation


class RelationProbe(Probe):
    """The likeliest of all objects of a relation, by the log-probability of the whole sentence (BEAR, Wiland et al.
    2024), over the patterns of ParaRel (Elazar et al. 2021).

    Measures: acc (over facts and patterns), acc_byte (by the candidate's UTF-8 byte), consistency (share of pairs of
    patterns that choose the same object, right or wrong; Elazar et al.'s), consistent_acc (facts that are right in
    every pattern), prob (the right one's share of the candidates' probability), chance (of a guesser), same_answer
    (how often the object that a relation's patterns choose most is chosen: 1 is a model that always says the same).
    Of each relation too: `<relation>/acc`, consistency, consistent_acc. Errors are clustered by subject.

    `relations` written out, or `file`: a folder with ParaRel's files, of which `names` are used. `most`: facts of a
    relation; `patterns` and `candidates`: of a fact (0 = all), drawn by the seed.
    """

    kind: ClassVar[str] = "relation"
    relations: tuple[Relation, ...] = ()
    file: str = ""
    names: tuple[str, ...] = ()
    most: int = Field(30, ge=1)
    patterns: int = Field(0, ge=0)
    candidates: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if bool(self.relations) == bool(self.file):
            raise ValueError("give one of relations, file")
        if self.candidates == 1:
            raise ValueError("candidates is 1; allowed: 0 (all) or at least 2, the right one among them")
        return self

    def measure(self, model: LanguageModel, scope: Scope) -> Measured:
        """Score every fact with every candidate in every pattern."""
        found = Measured()
        asked = list(self._questions(scope, found))
        if not asked:
            found.left_out["no fact has a wrong candidate"] += 1
            return found
        scores = iter(branch_scores(model, [group for question in asked for group in question.sentences()]))
        for question in asked:
            values = [next(scores) for _ in question.patterns]
            if all(math.isfinite(value) for each in values for value in each):
                found.rows.append(_row(question, values))
            else:
                found.left_out["not a number"] += 1
        self._summarize(found)
        return found

    def _questions(self, scope: Scope, found: Measured) -> Iterator[Question]:
        relations: Sequence[Relation] = self.relations
        if self.file:
            relations = read_relations(locate(self.file, scope.data, "relations"), self.names, found.left_out)
        for relation in relations:
            most = min(self.most, scope.limit or self.most)
            yield from questions(relation, scope.seed, facts=most, patterns=self.patterns, candidates=self.candidates)

    def _summarize(self, found: Measured) -> None:
        relations = sorted({str(row["group"]) for row in found.rows})
        for name in ("", *(relations if len(relations) > 1 else ())):
            rows = [row for row in found.rows if not name or row["group"] == name]
            for measure in MEASURES if not name else EACH:
                own = [row for row in rows if measure in row]
                if own:
                    clusters = [row["cluster"] for row in own]
                    where = f"{name}/{measure}" if name else measure
                    found.measures[where] = mean([float(row[measure]) for row in own], clusters)
        if found.rows:
            found.measures["same_answer"] = mean([_same_answer(found.rows, name) for name in relations])


def _row(question: Question, values: list[list[float]]) -> dict[str, Any]:
    """The right candidate is the first; it has to be strictly likelier than the others."""
    sizes = [len(candidate.encode()) for candidate in question.candidates]
    chosen = [max(range(len(v)), key=lambda index, v=v: (v[index], index)) for v in values]  # type: ignore[misc]
    by_byte = [[value / size for value, size in zip(v, sizes, strict=True)] for v in values]
    shares = [1 / math.fsum(math.exp(min(value - v[0], 700.0)) for value in v) for v in values]
    pairs = [a == b for a, b in combinations(chosen, 2)]
    row: dict[str, Any] = {
        "id": f"{question.relation}/{question.subject}/{question.candidates[0]}",
        "group": question.relation,
        "asked": digest(question.patterns, question.subject, question.candidates),
        "cluster": f"{question.relation}/{question.subject}",
        "acc": chosen.count(0) / len(chosen),
        "acc_byte": sum(v[0] > max(v[1:]) for v in by_byte) / len(chosen),
        "consistent_acc": float(set(chosen) == {0}),
        "prob": sum(shares) / len(shares),
        "chance": 1 / len(question.candidates),
        "texts": [question.candidates[index] for index in chosen],  # what each pattern chose
        "scores": [[round(v[0], 5), round(max(v[1:]), 5)] for v in values],  # the right one, the best wrong one
    }
    return row | ({"consistency": sum(pairs) / len(pairs)} if pairs else {})


def _same_answer(rows: Sequence[dict[str, Any]], relation: str) -> float:
    answers = Counter(text for row in rows if row["group"] == relation for text in row["texts"])
    return max(answers.values()) / answers.total()
