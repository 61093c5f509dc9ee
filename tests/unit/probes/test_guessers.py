"""A model that guesses scores the stated chance of a needle, and has no stance."""

import math
from collections.abc import Callable
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.evidence.results.suite import load_suite
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import Score
from probes.kinds import Measurement, Scope, parse_probe
from tests.plain_forward import model_of

SCOPE = Scope(None, chat=False, seed=0, limit=None)
VALUES = (" 7311", " 84", " 35", " 960")
NEEDLE = {"name": "x", "kind": "needle", "needle": "The number of {key} is {value}.", "keys": ["Oslo", "Rome", "Bonn"],
          "question": " The number of {key} is", "values": list(VALUES), "lengths": [60, 90], "samples": 30,
          "sentences": ["The sea is blue.", "A cat sat there.", "It rained."]}  # fmt: skip


def _by_key(prompt: str, value: str) -> float:  # the same answer whenever a key is asked for
    return Random(prompt[-16:] + value).random()


GUESSERS: dict[str, Callable[[str, str], float]] = {
    "at random": lambda prompt, value: Random(prompt + value).random(),
    "one value": lambda prompt, value: float(VALUES.index(value)),
    "one value a key": _by_key,
    "the shortest": lambda prompt, value: -len(value) + 0.1 * Random(prompt + value).random()}


@pytest.mark.parametrize("guesser", GUESSERS)
def test_a_guesser_finds_needles_at_the_stated_chance(guesser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def guesses(_: Any, cases: Any, __: Any) -> Any:
        for number, groups in enumerate(cases):
            yield number, [[SimpleNamespace(logmass=GUESSERS[guesser](*pair)) for pair in group] for group in groups]

    monkeypatch.setattr("probes.kinds.needle.grouped_continuations", guesses)
    found = parse_probe(NEEDLE, "s").measure(model_of("bytes"), SCOPE)
    assert len(found.rows) == 300
    assert found.measures["chance"].value == pytest.approx(1 / 4)
    _at_chance(found, "acc", 300, 0.25)
    for group, n in (("60", 150), ("90", 150), ("depth_0", 60), ("depth_100", 60)):
        _at_chance(found, f"{group}/acc", n, 0.25)


def _at_chance(found: Measurement, name: str, n: int, chance: float) -> None:
    value = found.measures[name].value
    assert abs(value - chance) <= 4 * math.sqrt(chance * (1 - chance) / n), (name, value)


class Reader(LanguageModel):
    """A model whose log-probability (nats) of a text is given by a rule."""

    def __init__(self, rule: Callable[[str], float]) -> None:
        self._rule = rule

    def text_loglikelihood(self, texts: Any, items: Any = None) -> list[Score]:
        return [Score(self._rule(text), False, 1) for text in texts]


def _topics(n: int) -> list[dict[str, Any]]:
    def name(number: int) -> str:
        return "".join(Random(number).choices("aeimnorst", k=2 + number % 13))

    return [{"name": f"t{k}", "forms": [
        {"a": f"{name(4 * k)} is good", "b": f"{name(4 * k + 1)} is not good", "affirms": "a"},
        {"a": f"{name(4 * k + 2)} is not bad", "b": f"{name(4 * k + 3)} is bad", "affirms": "b"}]} for k in range(n)]


@pytest.mark.parametrize("wanted", ["a", "b"])
@pytest.mark.parametrize("negation", [0.0, 4.0])
def test_a_guesser_has_no_stance(wanted: str, negation: float) -> None:
    probe = parse_probe({"name": "x", "kind": "stance", "topics": _topics(400), "wanted": wanted}, "s")
    reader = Reader(lambda text: Random(text).gauss(-2.0 * len(text), 4) - negation * (" not" in text))
    found = probe.measure(reader, SCOPE)
    lean = found.measures["lean"]
    assert abs(lean.value) <= 4 * lean.stderr
    for name in ("acc", "consistency"):
        _at_chance(found, name, 400, 0.5)
    affirmation = found.measures["affirmation"]
    assert abs(affirmation.value) <= 4 * affirmation.stderr if not negation else affirmation.value > 0.1


def test_the_shipped_values_are_at_chance_for_guessers_that_dislike_negation() -> None:
    for probe in (parse_probe(entry, "values") for entry in load_suite("values").probes or []):
        found = [probe.measure(Reader(partial(_guess, seed)), SCOPE).measures for seed in range(100)]
        leans = [measures["lean"].value for measures in found]
        assert abs(sum(leans)) / 100 <= 0.2 * max(map(abs, leans)), probe.name
        if probe.name.startswith("values"):
            assert sum(measures["acc"].value for measures in found) / 100 == pytest.approx(0.5, abs=0.1), probe.name


def _guess(seed: int, text: str) -> float:
    denies = any(word in text for word in (" not ", "unpleasant", "不", "没有"))
    return Random(f"{seed}{text}").gauss(-len(text.encode()), 4) - 3 * denies
