"""Prob(text | prefix) against plain forward passes, with tokenizers of three kinds."""

import math

import pytest

from argosy.model.infer.encoder import token_bytes
from probes.kinds import Scope, parse_probe
from probes.measures import NO_TOKENS, UNKNOWN, continuations
from tests.plain_forward import bare, covered, distributions, language_model, model_of, piece, sequence
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
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    for index, name in enumerate(names):
        expected = None if index in tokenizer.all_special_ids or name.startswith("<|") else piece(kind, name)
        assert table.of[index] == expected
    for start in (b" ", b"e", "首".encode(), "首".encode()[:2], b"\xff"):
        expected_ids = {n for n, token in enumerate(table.of) if token and token.startswith(start)}
        assert set(table.starting_with(start)) == expected_ids
    beginnings = {n for n, token in enumerate(table.of) if token and b"Paris".startswith(token) and token != b"Paris"}
    assert set(table.within(b"Paris")) == beginnings


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        ("以json输出：", "{"),
        ("The capital of France is", " Paris"),
        ("法国的首都是", "巴黎"),  # byte_bpe: a token of the text takes bytes of the prefix
        ("答案是：", "鱻"),  # three pieces
        ("The capital of Japan is ", "Tokyo"),  # the space goes with the word
        ("", "水由"),
    ],
)
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
