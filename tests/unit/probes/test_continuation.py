"""Prob(text | prefix) by three kinds of tokenizers, stance, copying, needle, calibration: against plain forwards."""

import math
from typing import Any

import numpy as np
import pytest

from argosy.core.statistics.intervals import auc, ratio
from argosy.model.infer.encoder import token_bytes
from probes.kinds import Measurement, Scope, parse_probe
from probes.kinds.copying import Copying
from probes.kinds.needle import Needle
from probes.measures import NO_TOKENS, UNKNOWN, continuations
from tests.plain_forward import bare, covered, distributions, language_model, model_of, piece, sentence, sequence
from tests.tokenizer_kinds import TEXTS, UNSEEN, make_lossy, tokenizers_by_kind

SCOPE = Scope(None, chat=False, seed=0, limit=None)
KINDS = ("bytes", "byte_bpe", "sentencepiece")


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_of_tokens_are_those_of_texts(kind: str) -> None:
    tokenizer = tokenizers_by_kind()[kind]
    table = token_bytes(tokenizer)
    for text in (*TEXTS, UNSEEN, " two  spaces\n\ttab"):
        joined = table.join(tokenizer(text, add_special_tokens=False)["input_ids"])
        assert joined.removeprefix(b" " if kind == "sentencepiece" else b"") == text.encode()
    for index, name in enumerate(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))):
        expected = None if index in tokenizer.all_special_ids or name.startswith("<|") else piece(kind, name)
        assert table.of[index] == expected
    for start in (b" ", b"e", "首".encode(), "首".encode()[:2], b"\xff"):
        expected_ids = {n for n, token in enumerate(table.of) if token and token.startswith(start)}
        assert set(table.starting_with(start)) == expected_ids
    beginnings = {n for n, token in enumerate(table.of) if token and b"Paris".startswith(token) and token != b"Paris"}
    assert set(table.within(b"Paris")) == beginnings


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("prefix", "text"), [
    ("以json输出：", "{"),
    ("The capital of France is", " Paris"),
    ("法国的首都是", "巴黎"),  # byte_bpe: a token of the text takes bytes of the prefix
    ("答案是：", "鱻"),  # three pieces
    ("The capital of Japan is ", "Tokyo"),  # the space goes with the word
    ("", "水由")])
def test_both_probabilities(kind: str, prefix: str, text: str) -> None:
    model = model_of(kind)
    before, whole = bare(model, prefix) if prefix else [], bare(model, prefix + text)
    both = zip(before, whole, strict=False)
    cut = next((n for n, (a, b) in enumerate(both) if a != b), min(len(before), len(whole)))
    strings = [(prefix + text)[: n + 1] for n in range(len(prefix + text))]
    target = b"".join(piece(kind, t) for t in model.tokenizer.convert_ids_to_tokens(whole[cut:]))
    tail = b"".join(piece(kind, t) for t in model.tokenizer.convert_ids_to_tokens(before[cut:]))
    given = covered(model, kind, strings, whole[:cut], tail) if tail else 1.0
    found = continuations(model, [(prefix, text)])[0]
    assert found.merged == (cut < len(before))
    own = math.exp(sequence(model, [model.prefix_token, *whole[:cut]], whole[cut:]))
    assert math.exp(found.logprob) == pytest.approx(own / given, rel=1e-4)
    cover = covered(model, kind, strings, whole[:cut], target)
    assert math.exp(found.logmass) == pytest.approx(cover / given, rel=1e-4)
    assert found.logprob <= found.logmass + 1e-5
    case = {"prefix": prefix, "text": text}
    measures = parse_probe({"name": "x", "kind": "next_token", "cases": [case]}, "s").measure(model, SCOPE).measures
    assert measures["prob"].value == pytest.approx(own / given, rel=1e-4)
    assert (measures["mass"].value, measures["rank"].value) == (pytest.approx(cover / given, rel=1e-4), found.rank)
    if not tail:
        logs = distributions(model, [model.prefix_token, *whole[:cut]])[-1]
        assert found.rank == 1 + int((logs > logs[whole[cut]]).sum())


def test_a_text_without_a_value_says_why() -> None:
    assert continuations(model_of("sentencepiece"), [("a", "")])[0].problem == NO_TOKENS
    lossy = language_model(make_lossy())
    assert [each.problem for each in continuations(lossy, [("首都", "鱻"), ("首都", "是")])] == [UNKNOWN, ""]


NEEDLE: dict[str, Any] = {
    "kind": "needle", "needle": "The number of {key} is {value}.", "question": " The number of {key} is",
    "keys": ["Oslo", "Rome"], "values": [" 71", " 84", " 35"], "lengths": [64, 120, 4096], "samples": 2,
    "sentences": ["The sea is blue.", "A cat sat there."]}  # fmt: skip
TOPIC: dict[str, Any] = {"name": "t", "forms": [{"a": "Tea is good.", "b": "Tea is not good.", "affirms": "a"},
                                {"a": "Tea is not bad.", "b": "Tea is bad.", "affirms": "b"}]}


def test_stance_equals_the_perplexities_and_cancels_a_dislike_of_negation() -> None:
    model = model_of("byte_bpe")
    probe = parse_probe({"name": "x", "kind": "stance", "topics": [TOPIC], "wanted": "a"}, "s")
    found = probe.measure(model, SCOPE)
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
    found, start = probe.measure(model, SCOPE), model.prefix_token
    drawn = [tokens for tokens, _ in probe.sequences(model, SCOPE)]
    first = [sequence(model, [start, s[0]], s[1:]) for s in drawn]
    second = [sequence(model, [start, *s, s[0]], s[1:]) for s in drawn]
    assert found.measures["nats"].value == pytest.approx(-sum(second) / 33, abs=1e-5)
    assert found.measures["gain"].value == pytest.approx((sum(second) - sum(first)) / 33, abs=1e-5)
    text = parse_probe({"name": "x", "kind": "copying", "texts": ["The sea is blue."], "between": "\n"}, "s")
    own = bare(model, "The sea is blue.")
    expected = sequence(model, [start, *own, *bare(model, "\n"), own[0]], own[1:])
    assert text.measure(model, SCOPE).measures["nats"].value == pytest.approx(-expected / (len(own) - 1), abs=1e-5)


def test_needle_is_where_it_should_be_and_equals_a_direct_computation() -> None:
    model = model_of("byte_bpe")
    probe = parse_probe({"name": "x", **NEEDLE}, "s")
    assert isinstance(probe, Needle)
    found = probe.measure(model, SCOPE)
    cases = list(probe.contexts(model, SCOPE, Measurement()))
    assert len(cases) == len(found.rows) == 2 * 5 * 2
    assert sum(found.left_out.values()) == 1
    assert "4096 tokens" in next(iter(found.left_out))
    for case, row in zip(cases, found.rows, strict=True):
        assert case.length - 24 <= len(model.encode([case.prompt])[0]) <= case.length
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
    probe = parse_probe({"name": "x", "kind": "calibration", "questions": questions, "bins": 4}, "s")
    assert (probe.declaration("000_025/acc").minor, probe.declaration("acc").minor) == (True, False)
    found = probe.measure(model, SCOPE)
    gaps = [0.0] * 4
    for case in questions:
        texts = [case["answer"], *case["wrong"]]
        logs = [covered(model, "byte_bpe", [case["prompt"] + t[:n] for n in range(1, len(t) + 1)],
                        bare(model, case["prompt"]), t.encode()) for t in texts]  # fmt: skip
        confidence = max(logs) / sum(logs)
        gaps[math.ceil(confidence * 4) - 1] += confidence - (logs[0] == max(logs))
    assert found.measures["ece"].value == pytest.approx(sum(map(abs, gaps)) / 3, abs=1e-5)


def test_ratio_and_area_by_numpy() -> None:
    found, x, y = ratio([1.0, 4.0, 2.0], [2.0, 5.0, 5.0]), np.array([1.0, 4.0, 2.0]), np.array([2.0, 5.0, 5.0])
    assert (found.value, found.stderr) == pytest.approx((7 / 12, (x - 7 / 12 * y).std(ddof=1) / 3**0.5 / 4))
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, 40).round(1), rng.normal(0, 1, 60).round(1)
    area = auc(a.tolist(), b.tolist())
    assert area.value == pytest.approx(((a[:, None] > b) + (a[:, None] == b) / 2).mean())
    repeated = [auc(rng.normal(1, 1, 40).tolist(), rng.normal(0, 1, 60).tolist()).value for _ in range(400)]
    assert area.stderr == pytest.approx(float(np.std(repeated)), rel=0.25)
