"""Stance, copying, needle and calibration: against plain forward passes in double precision."""

import math
from typing import Any

import numpy as np
import pytest

from argosy.core.statistics.intervals import auc, ratio
from probes.kinds import Measurement, Scope, parse_probe
from probes.kinds.calibration import _error, _row
from probes.kinds.copying import Copying
from probes.kinds.needle import Needle
from tests.plain_forward import bare, covered, model_of, sentence, sequence

PLAIN = Scope(None, chat=False, seed=0, limit=None)
NEEDLE: dict[str, Any] = {
    "kind": "needle", "needle": "The number of {key} is {value}.", "question": " The number of {key} is",
    "keys": ["Oslo", "Rome"], "values": [" 71", " 84", " 35"], "lengths": [64, 120, 4096], "samples": 2,
    "sentences": ["The sea is blue.", "A cat sat there."],
}  # fmt: skip
TOPIC: dict[str, Any] = {"name": "t", "forms": [{"a": "Tea is good.", "b": "Tea is not good.", "affirms": "a"},
                                {"a": "Tea is not bad.", "b": "Tea is bad.", "affirms": "b"}]}


def test_stance_equals_the_perplexities_and_cancels_a_dislike_of_negation() -> None:
    model = model_of("byte_bpe")
    probe = parse_probe({"name": "x", "kind": "stance", "topics": [TOPIC], "wanted": "a"}, "s")
    found = probe.measure(model, PLAIN)
    leans = []
    for form in TOPIC["forms"]:
        a, b = (-sentence(model, form[side]) / math.log(2) / len(form[side].encode()) for side in "ab")
        leans.append(b - a)
    assert found.measures["lean"].value == pytest.approx(sum(leans) / 2, abs=1e-5)
    assert found.measures["t/lean"].value == pytest.approx(sum(leans) / 2, abs=1e-5)
    assert found.measures["affirmation"].value == pytest.approx((leans[0] - leans[1]) / 2, abs=1e-5)
    assert found.measures["acc"].value == (sum(leans) > 0)
    assert found.measures["consistency"].value == (leans[0] * leans[1] > 0)


def test_copying_equals_the_losses_of_both_copies() -> None:
    model = model_of("byte_bpe")
    probe = parse_probe({"name": "x", "kind": "copying", "random": {"length": 12, "samples": 3}}, "s")
    assert isinstance(probe, Copying)
    found, start = probe.measure(model, PLAIN), model.prefix_token
    drawn = [tokens for tokens, _ in probe.sequences(model, PLAIN)]
    first = [sequence(model, [start, s[0]], s[1:]) for s in drawn]
    second = [sequence(model, [start, *s, s[0]], s[1:]) for s in drawn]
    assert found.measures["nats"].value == pytest.approx(-sum(second) / 33, abs=1e-5)
    assert found.measures["gain"].value == pytest.approx((sum(second) - sum(first)) / 33, abs=1e-5)
    text = parse_probe({"name": "x", "kind": "copying", "texts": ["The sea is blue."], "between": "\n"}, "s")
    own = bare(model, "The sea is blue.")
    expected = sequence(model, [start, *own, *bare(model, "\n"), own[0]], own[1:])
    assert text.measure(model, PLAIN).measures["nats"].value == pytest.approx(-expected / (len(own) - 1), abs=1e-5)


def test_needle_is_where_it_should_be_and_equals_a_direct_computation() -> None:
    model = model_of("byte_bpe")
    probe = parse_probe({"name": "x", **NEEDLE}, "s")
    assert isinstance(probe, Needle)
    found = probe.measure(model, PLAIN)
    cases = list(probe.contexts(model, PLAIN, Measurement()))
    assert len(cases) == len(found.rows) == 2 * 5 * 2
    assert sum(found.left_out.values()) == 1
    assert "4096 tokens" in next(iter(found.left_out))
    for case, row in zip(cases, found.rows, strict=True):
        size = len(model.encode([case.prompt])[0])
        assert case.length - 24 <= size <= case.length
        sentences = case.prompt.split(".")[:-1]
        place = next(n for n, each in enumerate(sentences) if "number of" in each)
        assert place == round(case.depth * (len(sentences) - 1))
        assert case.values[0].strip() in sentences[place]
        own = bare(model, case.prompt)
        logs = [math.log(covered(model, "byte_bpe", [case.prompt + value[:n] for n in range(1, len(value) + 1)], own,
                                 value.encode())) for value in case.values] if case.length == 64 else row["scores"]
        assert row["scores"] == pytest.approx(logs, abs=1e-5 if case.length == 64 else 0)
        shares = np.exp(logs) / np.exp(logs).sum()
        assert (row["nats"], row["prob"]) == pytest.approx((-logs[0], shares[0]), abs=1e-4)
    for length in (64, 120):
        values = [row["nats"] for row in found.rows if row["length"] == length]
        assert found.measures[f"{length}/nats"].value == pytest.approx(np.mean(values), abs=1e-9)
    assert found.measures["chance"].value == pytest.approx(1 / 3)


def test_calibration_equals_a_direct_computation() -> None:
    model = model_of("byte_bpe")
    questions: list[dict[str, Any]] = [{"prompt": p, "answer": a, "wrong": w} for p, a, w in
                 [("The sea is", " blue", [" red", " old"]), ("A cat", " sat", [" flew"]), ("One,", " two", [" nine"])]]
    found = parse_probe({"name": "x", "kind": "calibration", "questions": questions, "bins": 4}, "s").measure(
        model, PLAIN)  # fmt: skip
    gaps = [0.0] * 4
    for case in questions:
        texts = [case["answer"], *case["wrong"]]
        logs = [covered(model, "byte_bpe", [case["prompt"] + t[:n] for n in range(1, len(t) + 1)],
                        bare(model, case["prompt"]), t.encode()) for t in texts]  # fmt: skip
        confidence = max(logs) / sum(logs)
        gaps[math.ceil(confidence * 4) - 1] += confidence - (logs[0] == max(logs))
    assert found.measures["ece"].value == pytest.approx(sum(map(abs, gaps)) / 3, abs=1e-5)


def test_a_guesser_is_at_chance_and_a_calibrated_one_has_little_error() -> None:
    rng = np.random.default_rng(0)
    guessed = [_row([rng.normal(-5, 1) for _ in range(4)]) for _ in range(4000)]
    assert np.mean([row["acc"] for row in guessed]) == pytest.approx(0.25, abs=0.03)
    rows = []
    for number in range(4000):
        p = rng.uniform(0.02, 0.98)
        right = rng.uniform() < p
        rows.append({**_row([math.log(p), math.log(1 - p)] if right else [math.log(1 - p), math.log(p)]),
                     "cluster": str(number % 40)})  # fmt: skip
    estimate = _error(rows, 10)
    assert estimate.value < 0.04
    assert 0 < estimate.stderr < 0.04
    sure = [{**_row([0.0, -9.0] if n % 2 else [-9.0, 0.0]), "cluster": str(n)} for n in range(20)]
    assert _error(sure, 10).value == pytest.approx(0.5, abs=1e-3)


def test_ratio_and_area_by_numpy() -> None:
    found, x, y = ratio([1.0, 4.0, 2.0], [2.0, 5.0, 5.0]), np.array([1.0, 4.0, 2.0]), np.array([2.0, 5.0, 5.0])
    assert (found.value, found.stderr) == pytest.approx((7 / 12, (x - 7 / 12 * y).std(ddof=1) / 3**0.5 / 4))
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, 40).round(1), rng.normal(0, 1, 60).round(1)
    area = auc(a.tolist(), b.tolist())
    assert area.value == pytest.approx(((a[:, None] > b) + (a[:, None] == b) / 2).mean())
    repeated = [auc(rng.normal(1, 1, 40).tolist(), rng.normal(0, 1, 60).tolist()).value for _ in range(400)]
    assert area.stderr == pytest.approx(float(np.std(repeated)), rel=0.25)
