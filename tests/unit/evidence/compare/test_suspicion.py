"""Who prefers a letter has not seen the test, however the right letters are spread over the published items."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.suspicion import suspicions
from argosy.model.infer.rows import Score
from evals.chain import parse_chain
from evals.items import Item
from evals.memorisation import memorisation
from evals.question import Question
from evals.section import Memorisation
from tests.comparison_fixtures import checkpoint

PREFERS = (4.0, 2.0, 1.0, 0.0)  # nats by place: always A, if nothing speaks against it
SPREAD = {"mostly A": (0.7, 0.1, 0.1, 0.1), "mostly D": (0.1, 0.1, 0.1, 0.7), "even": (0.25, 0.25, 0.25, 0.25)}
Speaks = Callable[[Question], Sequence[float]]


def _items(shares: Sequence[float], count: int = 200) -> list[Item]:
    rng = Random(0)
    places = rng.choices(range(4), shares, k=count)
    return [Item(f"i{n}", "en", f"What is {n}?", tuple(f"{word}{n}" for word in "wxyz"), place)
            for n, place in enumerate(places)]


def _biased(question: Question) -> Sequence[float]:
    return PREFERS


def _memorised(question: Question) -> Sequence[float]:
    """Prefers a place, and knows the letter of the published order alone."""
    rng = Random(question.prompt)
    seen = question.origin == (0, 1, 2, 3) and rng.random() < 0.9
    return [p + 8.0 * (seen and place == question.gold) for place, p in enumerate(PREFERS)]


def _noisy(question: Question) -> Sequence[float]:
    rng = Random(question.prompt)
    return [p + rng.gauss(0, 2) for p in PREFERS]


class _Model:
    """A LanguageModel that says `speaks` of the letters of each question."""

    def __init__(self, speaks: Speaks, questions: Sequence[Question]) -> None:
        self._speaks, self._questions = speaks, {question.prompt: question for question in questions}

    def loglikelihood(self, pairs: Sequence[tuple[str, str]], items: Sequence[int] = ()) -> list[Score]:
        found = []
        for prompt, letter in pairs:
            question = self._questions[prompt]
            found.append(Score(self._speaks(question)[question.continuations.index(letter.strip())], False, 1))
        return found

    def prepare(self, pairs: Sequence[tuple[str, str]], items: Sequence[int], texts: Sequence[str]) -> None:
        assert [context + answer for context, answer in pairs] == list(texts)

    def text_loglikelihood(self, texts: Sequence[str]) -> list[Score]:
        return self.loglikelihood([(text[:-2], text[-2:]) for text in texts])


def _checkpoint(key: str, speaks: Speaks, items: Sequence[Item]) -> Checkpoint:
    asked: list[Question] = []
    rows: list[dict[str, Any]] = []
    for variant in ("plain", "permuted"):
        questions = parse_chain(variant).all_questions(items, 0)[0]
        asked += questions
        rows += [_row(variant, question, speaks(question)) for question in questions]
    model = _Model(speaks, asked)
    found = memorisation(model, "facts", items, Memorisation(), chat=False, seed=0)  # type: ignore[arg-type]
    return checkpoint(key, [*rows, *found.rows], metrics=found.metrics, stderr=found.stderr, counts=found.counts)


def _row(variant: str, question: Question, scores: Sequence[float]) -> dict[str, Any]:
    chosen = list(scores).index(max(scores))
    return {"task": "facts", "variant": variant, "id": question.id, "item": question.item, "lang": "en",
            "correct": chosen == question.gold, "chosen": chosen, "gold": question.gold, "scores": list(scores)}


@pytest.mark.parametrize("spread", SPREAD)
def test_a_preferred_letter_leaves_no_trace(spread: str) -> None:
    items = _items(SPREAD[spread])
    biased = _checkpoint("biased", _biased, items)
    found = suspicions([biased, _checkpoint("noisy", _noisy, items)], "facts")
    assert "likely" not in {seen.verdict for seen in found.values()}
    assert all(abs(part.effect) < 2.5 * part.stderr for seen in found.values() if seen.found
               for part in seen.found.parts)
    assert biased.metrics["bench/facts/memorisation/answer_gap"] == pytest.approx(0, abs=1e-9)
    assert biased.metrics["bench/facts/memorisation/answer_first"] == pytest.approx(0.25, abs=1e-9)


@pytest.mark.parametrize("spread", SPREAD)
def test_memorised_letters_show_through_a_preference(spread: str) -> None:
    items = _items(SPREAD[spread])
    found = suspicions([_checkpoint("twin", _memorised, items), _checkpoint("biased", _biased, items)], "facts")
    assert found["twin"].verdict == "likely"
    assert found["biased"].verdict != "likely"
