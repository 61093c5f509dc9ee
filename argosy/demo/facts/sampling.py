"""Split the facts between training and benchmark, and draw wrong options."""

from collections.abc import Sequence
from random import Random

from argosy.demo.facts.table import LANGS, RELATIONS, Fact


def split_facts(facts: Sequence[Fact], seed: str | int, fraction: float) -> tuple[list[Fact], list[Fact]]:
    """(taught, benchmark): `fraction` of each relation is taught, the rest is the benchmark.

    Quizzes and instructions in training data ask only about taught facts; the benchmark
    half appears in training as prose alone.
    """
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"fraction is {fraction}, allowed: 0 to 1")
    taught_ids: dict[str, None] = {}
    for relation in RELATIONS:
        ids = sorted(fact.id for fact in facts if fact.relation == relation)
        Random(f"split/{seed}/{relation}").shuffle(ids)
        taught_ids.update(dict.fromkeys(ids[: round(len(ids) * fraction)]))
    taught = [fact for fact in facts if fact.id in taught_ids]
    return taught, [fact for fact in facts if fact.id not in taught_ids]


def distractors(fact: Fact, facts: Sequence[Fact], rng: Random, n: int = 3) -> list[dict[str, str]]:
    """`n` wrong answers (language -> text) of the same relation, all different in each language.

    Pass the half that `fact` belongs to: an answer that occurs only as a wrong option
    would teach that it is wrong.
    """
    pool = [other.answer for other in facts if other.relation == fact.relation]
    rng.shuffle(pool)
    chosen = [fact.answer]
    for answer in pool:
        if len(chosen) > n:
            break
        if all(answer[lang] != kept[lang] for kept in chosen for lang in LANGS):
            chosen.append(answer)
    if len(chosen) <= n:
        raise ValueError(f"{fact.id}: {len(chosen) - 1} wrong options, {n} are needed")
    return chosen[1:]
