"""Guessers on multiple-choice items of many sources: none of them is the best, learns or is worth watching."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from argosy.core.statistics.intervals import mean
from argosy.evidence.compare.checkpoints import Checkpoint, Checkpoints
from argosy.evidence.compare.sentences import stage_sentences
from argosy.evidence.compare.stages import compare
from argosy.evidence.compare.watch import watchlist
from evals.chain import parse_chain
from evals.question import Question
from evals.variants import NotApplicable
from tests.comparison_fixtures import checkpoint
from tests.variant_properties import PUBLISHED, source

CHAINS = {"published": parse_chain("plain", None), "orders": parse_chain("orders", {"permuted": {"k": 4}})}
Asked = dict[str, list[Question]]


def _questions(items: list[Any]) -> Asked:
    """In the published order and in others, in which no place is right more often; of 100 items that have both."""
    found: Asked = {form: [] for form in CHAINS}
    for item in items:
        with suppress(NotApplicable):
            both = {form: chain.questions(item, 0) for form, chain in CHAINS.items()}
            for form, questions in both.items():
                found[form] += questions if len({q.item for q in found[form]}) < 100 else []
    return found


def _guesser(label: str, asked: Asked, choose: Callable[[Question], int], step: int = 0) -> Checkpoint:
    rows, found = [], {}
    for form, questions in asked.items():
        own = []
        for q in questions:
            chosen = choose(q)
            own.append({"task": "t", "variant": form, "id": q.id, "item": q.item, "lang": "", "chosen": chosen,
                        "gold": q.gold, "correct": chosen in (q.golds or (q.gold,)), "scores": [0.0] * len(
                            q.continuations), "asked": "f00d"})
        found[f"bench/t/{form}/acc"] = mean([float(row["correct"]) for row in own], [row["item"] for row in own])
        rows += own
    c = checkpoint(label, rows, headline={"t": list(CHAINS)}, stderr={name: e.stderr for name, e in found.items()},
                   counts={name: e.n for name, e in found.items()})
    c.digest, c.step, c.tokens = "one run", step, 1000 * step
    return c


def _random(seed: int, knows: float = 0.0) -> Callable[[Question], int]:
    def choose(q: Question) -> int:
        rng = Random(f"{seed}{q.id}{q.prompt}")
        right = Random(f"{seed}{q.item}").random() < knows
        return q.gold if right else rng.randrange(len(q.continuations))

    return choose


@pytest.mark.parametrize("name", ["facts", "right_first", "unknown", *sorted({*PUBLISHED} - {"mmlu", "gaokao"})])
def test_no_guesser_is_the_best(name: str) -> None:
    asked = _questions(source(name))
    guessers = [_guesser(f"random {seed}", asked, _random(seed), seed) for seed in range(3)]
    guessers += [_guesser("first", asked, lambda q: 0, 3),
                 _guesser("last", asked, lambda q: len(q.continuations) - 1, 4)]
    (task,) = (found := compare(Checkpoints(guessers))).tasks
    assert task.best is None
    assert next(s.kind for s in stage_sentences(found) if s.about == "t") == "undecided"
    assert "watch" not in {each.verdict for each in watchlist(Checkpoints(guessers))}
    knows = _guesser("knows", asked, _random(8, 0.5), 5)
    assert compare(Checkpoints([*guessers, knows])).tasks[0].best == "knows"
    assert compare(Checkpoints([knows])).tasks[0].no_best == "there is no other candidate"
