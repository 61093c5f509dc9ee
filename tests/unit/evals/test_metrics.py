"""Metrics of answers, by hand (PriDe's by a second implementation), and questions that the model has no room for."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from argosy.core.statistics.intervals import Estimate
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.suite import Suite
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.scorer import Fit
from evals.answers import Answer, answer
from evals.chain import parse_chain
from evals.formats import read_items
from evals.lm_eval.run import ArgosyLM
from evals.metrics import chances, metrics, position_bias
from evals.question import Question
from probes.kinds import run_probes
from tests.evaluation_fixtures import ask_benchmarks, make_items, make_language_model
from tests.step_fixtures import write_lines
from workflows.cli.evaluate import _lines

GOOD = '{"id": "a", "lang": "zh", "question": "问？", "choices": ["甲", "乙"], "answer": 1}'
BROKEN = {
    "{": "invalid JSON", "[1]": "not a JSON object", '{"id": "b"}': "no question", GOOD: "id is there twice",
    GOOD.replace('"a"', '"d"').replace("1}", "true}"): "answer is not a number",
    GOOD.replace('"a"', '"e"').replace("乙", "甲"): "two choices are the same",
    GOOD.replace('"a"', '"f"').replace("zh", "xx"): "lang is not one of en, zh",
    GOOD.replace('"a"', '"h"').replace('"choices": ["甲", "乙"], ', ""): "no choices, and no solution: an item whose "
    'answer is generated needs one, or "solution": ""'}


def test_broken_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "zh.jsonl"
    path.write_bytes("\n".join([GOOD, *BROKEN]).encode() + b'\n{"id": "\xff"}\n')
    found = read_items(path)
    assert [item.id for item in found.items] == ["a"]
    assert found.left_out == Counter([*BROKEN.values(), "invalid UTF-8"])


def test_metrics_by_hand() -> None:
    """Two items in two orders: one always right, one that follows the place."""
    items = make_items(2)
    chain = parse_chain("permuted", {"permuted": {"k": 2}})
    answers = []
    for question in [q for item in items for q in chain.questions(item, 0)]:
        chosen = question.gold if question.item == "item/0" else 0
        answers.append(answer(question, [0.0 if place == chosen else -5.0 for place in range(4)]))
    found = metrics([a for a in answers if a])
    at_first = sum(a.question.gold == 0 for a in answers if a and a.question.item == "item/1")
    assert found["acc"].value == (2 + at_first) / 4
    assert found["acc_all"] == Estimate(0.5 + 0.5 * (at_first == 2), found["acc_all"].stderr, 2)
    origins = {a.question.origin[0] for a in answers if a and a.question.item == "item/1"}
    assert found["consistency"].value == (1 + (len(origins) == 1)) / 2
    assert 0 < found["position_bias"].value <= 0.5


def test_averaging_over_all_orders_removes_a_position_bias() -> None:
    """A model that likes the first place a lot and the right option a little."""
    chain = parse_chain("permuted", {"permuted": {"k": 0}})
    questions, _ = chain.all_questions(make_items(20), 0)
    answers = [a for q in questions if (a := answer(q, [2.0 * (p == 0) + 1.0 * (p == q.gold) for p in range(4)]))]
    found = metrics(answers)
    assert (found["acc"].value, found["acc_averaged"].value) == (pytest.approx(0.25), 1.0)
    assert position_bias(answers) == pytest.approx(0.75)


def test_bytes_normalise_and_nan_gives_no_answer() -> None:
    (question,) = parse_chain("cloze").questions(make_items(1)[0], 0)
    sizes = [len(text.encode()) for text in question.continuations]
    found = answer(question, [-0.5 * size for size in sizes])
    assert found
    assert found.chosen == sizes.index(min(sizes))
    assert answer(question, [0.0, float("nan"), 0.0, 0.0]) is None


@pytest.mark.parametrize(("options", "k", "rounds", "all_right"), [(4, 4, 1, 4**-4), (4, 6, 1, 4**-6), (3, 4, 1, 3**-4),
                                                                   (2, 4, 0, 0.5), (4, 3, 0, 4**-3)])  # fmt: skip
def test_metrics_over_orders_have_their_own_chance(options: int, k: int, rounds: int, all_right: float) -> None:
    """A guesser by place: its averages over whole rounds are ties, of which it gets its share; others are left out."""
    questions, _ = parse_chain("permuted", {"permuted": {"k": k}}).all_questions(make_items(24, options=options), 0)
    answers = [a for q in questions if (a := answer(q, [3.0 * (place == 1) for place in range(options)]))]
    found, own = metrics(answers), chances(answers)
    each = len(questions) / 24
    assert own["acc_all"] == pytest.approx(all_right, abs=1e-8)
    assert own["consistency"] == pytest.approx(options ** (1 - each), abs=1e-8)
    assert ("acc_averaged" in found) == ("acc_averaged" in own) == bool(rounds)
    if rounds:
        assert found["acc_averaged"].value == pytest.approx(1 / options) == own["acc_averaged"]
        assert found["acc_averaged"].stderr == pytest.approx(0)


LIKES = (2.0, 0.0, 1.0, -1.0)  # nats for each place


def _ask(questions: list[Question], knows: float, noise: float = 0.0) -> list[Answer]:
    """A model with a preference for places that knows the answer by `knows` nats."""
    rng = Random(0)
    found = []
    for question in questions:
        scores = [LIKES[n] + knows * (n == question.gold) + rng.gauss(0, noise) for n in range(4)]
        found.append(answer(question, scores))
    return [a for a in found if a]


def test_pride_by_hand_in_numpy() -> None:
    """Zheng et al. 2024: prior of each place from cyclic orders, then dividing by it."""
    questions, _ = parse_chain("pride", {"pride": {"share": 0.3}}).all_questions(make_items(120, seed=4), 0)
    answers = _ask(questions, knows=0.8, noise=1.0)
    by_item: dict[str, list[Answer]] = {}
    for a in answers:
        by_item.setdefault(a.question.item, []).append(a)
    probabilities = {a.question.id: np.exp(a.scores) / np.exp(a.scores).sum() for a in answers}
    priors = []
    for group in by_item.values():
        if len(group) == 4:
            logs = np.mean([np.log(probabilities[a.question.id]) for a in group], axis=0)
            priors.append(np.exp(logs) / np.exp(logs).sum())
    prior = np.mean(priors, axis=0)
    right = []
    for group in by_item.values():
        first = group[0].question
        if len(group) == 4:
            of_option = np.zeros(4)
            for a in group:
                of_option[list(a.question.origin)] += probabilities[a.question.id]
            right.append(of_option.argmax() == first.origin[first.gold])
        else:
            right.append((probabilities[first.id] / prior).argmax() == first.gold)
    found = metrics(answers)
    assert found["acc_pride"].value == np.mean(right)
    assert found["acc"].value == np.mean([a.correct for a in answers if not a.question.calibration])
    assert "consistency" not in found
    assert 20 < len(priors) < 52  # about 0.3 of 120 are calibrated
    none, _ = parse_chain("pride", {"pride": {"share": 0.0001}}).all_questions(make_items(20), 0)
    assert "acc_pride" not in metrics(_ask(none, 1.0))


def test_errors_are_clustered_by_what_items_share() -> None:
    items = [replace(item, cluster=f"c{n // 4}") for n, item in enumerate(make_items(40))]
    questions, _ = parse_chain("plain").all_questions(items, 0)
    answers = []
    for n, question in enumerate(questions):
        right = (n // 4) % 2 == 0  # whole clusters right or wrong
        answers.append(answer(question, [float((place == question.gold) == right) for place in range(4)]))
    found = metrics([a for a in answers if a])["acc"]
    assert (found.value, found.stderr) == (0.5, pytest.approx(0.5 / math.sqrt(10) * math.sqrt(10 / 9)))


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return make_language_model(128)


def run(model: LanguageModel, root: Path, lines: list[dict[str, Any]], variant: Any) -> Findings:
    write_lines(root / "items.jsonl", [{"lang": "en", **line} for line in lines])
    return ask_benchmarks(model, root, {"tasks": {"t": ["items.jsonl"]}, "variants": {"v": variant}})


def item(name: str, question: str, wrong: str = "water") -> dict[str, Any]:
    return {"id": name, "question": question, "choices": ["stone", wrong], "answer": 0}


def test_what_is_cut_is_counted_and_a_long_answer_has_its_own_reason(model: LanguageModel, tmp_path: Path) -> None:
    lines = [item("a", "What is a river?"), item("b", "What is it? " * 100), item("c", "What?", "salt " * 300)]
    found = run(model, tmp_path, lines, "cloze")
    assert (found.cut, found.counts["bench/t/v/acc"]) == ({"bench/t/v": 1}, 2)
    [shown] = [line for line in _lines(vars(found)) if line.startswith("t/v/acc ")]
    assert shown.endswith("n 2, 1 cut")
    assert found.left_out["bench/t/v"] == {"answer is longer than the model": 1}


def test_a_request_is_cut_from_the_token_on_that_has_no_position(model: LanguageModel) -> None:
    n = model.max_length
    requests = [((1,) * a, (2,) * b) for a, b in ((n, 1), (n + 1, 1), (1, n), (2, n), (1, n + 1))]
    assert model.scorer.fit(requests) == [Fit.WHOLE, Fit.CUT, Fit.WHOLE, Fit.CUT, Fit.TOO_LONG]


def test_what_probes_ask_and_the_model_sees_the_end_of_is_counted(model: LanguageModel) -> None:
    """Of all ways to ask: a continuation, the next token, a text that is said; whole texts go in windows."""
    long, short = "What is it? " * 100, "What is a river?"
    probes = [
        {"name": "next", "kind": "next_token", "cases": [{"prefix": p, "text": " x"} for p in (long, short, long)]},
        {"name": "text", "kind": "perplexity", "texts": [long, short]},
        {"name": "said", "kind": "generation", "prompts": [short, long], "max_new_tokens": 8},
        {"name": "pair", "kind": "contrastive", "pairs": [{"context": "a", "good": "river", "bad": long}]}]
    suite = Suite.model_validate({"name": "s", "probes": probes})
    found = run_probes(suite, model, "", chat=False, seed=0, limit=None)
    assert not found.failed
    assert found.cut.keys() == {"probe/s/next", "probe/s/said"}
    assert found.cut["probe/s/next"] >= 2
    assert found.cut["probe/s/said"] == 1
    assert found.left_out == {"probe/s/pair": {"answer is longer than the model": 1}}


def test_a_prompt_without_room_for_its_answer_is_not_asked(model: LanguageModel, tmp_path: Path) -> None:
    lines = [item("a", "What is a river?"), item("b", "What is it? " * 60)]
    found = run(model, tmp_path, lines, {"generative": {"max_tokens": 16}})
    assert found.counts["bench/t/v/acc"] == 1
    assert found.left_out["bench/t/v"] == {"prompt and answer are longer than the model": 1}
    none = run(model, tmp_path, lines, {"generative": {"max_tokens": 128}})
    assert (none.metrics, none.left_out["bench/t/v"]) == ({}, {"prompt and answer are longer than the model": 2})


def test_requests_of_lm_eval_are_counted_by_task_and_none_is_asked_with_an_empty_prompt(model: LanguageModel) -> None:
    from lm_eval.api.instance import Instance

    lm = ArgosyLM(model)
    long = "river " * 200
    lm.loglikelihood([Instance("loglikelihood", {}, (text, " a"), 0, ("x", 0, 1)) for text in (long, "river")])
    options = {"until": ["."], "max_gen_toks": 8}
    lm.generate_until([Instance("generate_until", {}, (text, options), 0, ("y", 0, 1)) for text in (long, "river")])
    assert lm.cut == {"x": 1, "y": 1}
    with pytest.raises(ValueError, match="max_gen_toks is 128, and the model has 128 positions"):
        lm.generate_until([Instance("generate_until", {}, ("a", {"until": [], "max_gen_toks": 128}), 0, ("z", 0, 1))])
