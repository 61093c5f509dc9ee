"""Relations, minimal pairs and perplexities against whole-sentence forward passes."""

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from argosy.evidence.results.rows import Rows
from argosy.evidence.results.suite import load_suite
from argosy.evidence.results.values import total
from argosy.model.infer.model import LanguageModel
from probes.kinds import Measurement, Scope, parse_probe, run_probes
from probes.kinds.relation import Relation, fill, questions
from tests.plain_forward import bare, model_of, sentence, sequence
from tests.shared_data import shared

KINDS = ("byte_bpe", "sentencepiece")
RELATION = {
    "name": "capital",
    "patterns": ["[X]的首都是[Y]。", "[Y]是[X]的首都。", "The capital of [X] is [Y] ."],
    "facts": [["法国", "巴黎"], ["日本", "东京"], ["中国", "北京"], ["法国", "Paris"]]}
SCOPE = Scope(None, chat=False, seed=0, limit=None)


def measure(model: LanguageModel, **fields: Any) -> Measurement:
    return parse_probe({"name": "x", **fields}, "s").measure(model, SCOPE)


@pytest.mark.parametrize("kind", KINDS)
def test_relations_by_whole_sentences(kind: str) -> None:
    model = model_of(kind)
    found = measure(model, kind="relation", relations=[RELATION])
    right, agree, every, shares = [], [], [], []
    objects = {"法国": ["巴黎", "Paris"], "日本": ["东京"], "中国": ["北京"]}
    for subject, answer in sorted(map(tuple, RELATION["facts"])):
        candidates = [answer, *sorted({o for other, own in objects.items() if other != subject for o in own})]
        chosen = []
        for pattern in RELATION["patterns"]:
            texts = [pattern.replace(" .", ".").replace("[X]", subject).replace("[Y]", c) for c in candidates]
            scores = [sentence(model, text) for text in texts]
            chosen.append(candidates[scores.index(max(scores))])
            shares.append(1 / sum(math.exp(score - scores[0]) for score in scores))
        right += [each == answer for each in chosen]
        agree.append(sum(a == b for a, b in itertools.combinations(chosen, 2)) / 3)
        every.append(all(each == answer for each in chosen))
    values = {name: estimate.value for name, estimate in found.measures.items()}
    assert values["acc"] == pytest.approx(sum(right) / 12)
    assert values["consistency"] == pytest.approx(sum(agree) / 4)
    assert values["consistent_acc"] == pytest.approx(sum(every) / 4)
    assert values["prob"] == pytest.approx(sum(shares) / 12, rel=1e-3)
    assert values["chance"] == pytest.approx((1 / 3 + 1 / 3 + 1 / 4 + 1 / 4) / 4)
    answers = Counter(text for row in found.rows for text in row["texts"])
    assert values["same_answer"] == pytest.approx(max(answers.values()) / 12)


def test_what_is_drawn_of_a_relation() -> None:
    facts = [(f"subject {n}", f"object {n % 17}") for n in range(60)]
    relation = Relation(name="r", patterns=[f"[X] {n} [Y]." for n in range(9)], facts=facts)
    found = questions(relation, 3, facts=20, patterns=4, candidates=6)
    assert found == questions(relation, 3, facts=20, patterns=4,
                              candidates=6) != questions(relation, 4, facts=20, patterns=4, candidates=6)
    assert len(found) == 20
    for question in found:
        assert (question.subject, question.candidates[0]) in facts
        assert (len(set(question.candidates)), len(question.patterns)) == (6, 4)
        assert not any((question.subject, wrong) in facts for wrong in question.candidates[1:])
    assert {len(q.candidates) for q in questions(relation, 0, facts=0, patterns=0, candidates=0)} == {17}
    assert fill("[Y], in [X] .", "[Y]", "a") == "a, in [Y]."  # a subject that reads as a slot stays what it is


def same(before: Sequence[int], whole: Sequence[int]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, whole, strict=False)))


def given(model: Any, contexts: list[str], texts: list[str]) -> list[float]:
    """Score texts after contexts, from a border before any token that joins the two of either."""
    encoded = [(bare(model, context), bare(model, context + text))
               for context, text in zip(contexts, texts, strict=True)]
    back = max(len(before) - same(before, whole) for before, whole in encoded)
    return [sequence(model, [model.prefix_token, *whole[: len(before) - back]], whole[len(before) - back :])
            for before, whole in encoded]


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_by_whole_texts(kind: str) -> None:
    model = model_of(kind)
    pairs = [{"good": " the sun was hot.", "bad": " the moon.", "context": "It melted because", "domain": "They say"},
             {"good": "水由氢组成", "bad": "水组成", "context": "他说：", "domain": "", "after": "。天气很冷。"}]
    found = measure(model, kind="contrastive", pairs=pairs)
    for pair, row in zip(pairs, found.rows, strict=True):
        after = pair.get("after", "")
        texts = [pair[side] + after for side in ("good", "bad")]
        a, b = given(model, [pair["context"]] * 2, texts)
        assert row["scores"] == pytest.approx([a, b], abs=1e-3)
        assert row["acc"] == (a > b)
        assert row["acc_byte"] == (a / len(texts[0].encode()) > b / len(texts[1].encode()))
        assert row["acc_char"] == (a / len(texts[0]) > b / len(texts[1]))
        own = [len(bare(model, pair["context"] + text)) - len(bare(model, pair["context"])) for text in texts]
        assert row["acc_token"] == (a / own[0] > b / own[1])
        assert row["margin"] == pytest.approx(a - b, abs=1e-3)
        prior = given(model, [pair["domain"]] * 2, texts)
        assert row["acc_pmi"] == (a - prior[0] > b - prior[1])
        if after:
            partial = given(model, [pair["context"] + pair[side] for side in ("good", "bad")], [after] * 2)
            assert row["acc_partial"] == (partial[0] > partial[1])
    assert found.measures["acc_partial"].n == 1


def test_blimp_by_phenomenon() -> None:
    model = model_of("byte_bpe")
    found = measure(model, kind="contrastive", file=str(shared("blimp")), group_by="linguistics_term", most=2)
    lines = [json.loads(line) for path in sorted(shared("blimp").glob("*.jsonl"))
             for line in path.read_text(encoding="utf-8").splitlines()[:2]]
    assert [row["texts"] for row in found.rows] == [[line["sentence_good"], line["sentence_bad"]] for line in lines]
    for line, row in list(zip(lines, found.rows, strict=True))[::9]:
        expected = [sentence(model, line[key]) for key in ("sentence_good", "sentence_bad")]
        assert row["scores"] == pytest.approx(expected, abs=1e-3)
    binding = [row["acc"] for row, line in zip(found.rows, lines, strict=True) if line["linguistics_term"] == "binding"]
    assert found.measures["binding/acc"].value == pytest.approx(sum(binding) / len(binding))
    assert found.measures["acc"].n == len(lines) == 2 * 23
    rows = Rows({"task": "s", "variant": "x", **row} for row in found.rows)  # what checkpoints are compared by
    for name in ("acc", "binding/acc", "island_effects/acc", "margin"):
        assert total(rows.values(f"probe/s/x/{name}")) == pytest.approx(found.measures[name].value)


@pytest.mark.parametrize("kind", KINDS)
def test_perplexities_by_units_and_documents(kind: str, tmp_path: Path) -> None:
    model = model_of(kind)
    documents = [["The river flows.", " It is old."], ["水由氢和氧组成。"], ["1, 2 或者 3"]]
    nats = [sum(-sentence(model, text) for text in texts) for texts in documents]
    size = {"bytes": 0, "chars": 0, "tokens": 0}
    for text in (text for texts in documents for text in texts):
        size["bytes"] += len(text.encode())
        size["chars"] += len(text)
        size["tokens"] += len(bare(model, text))
    file = tmp_path / "texts.jsonl"
    lines = [{"texts": texts} if len(texts) > 1 else {"text": texts[0]} for texts in documents]
    file.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"texts": []}]) + "{\n", encoding="utf-8")
    by_file = measure(model, kind="perplexity", file=str(file))
    assert by_file.left_out == {"texts is not a list of texts": 1, "invalid JSON": 1}
    for found in (measure(model, kind="perplexity", texts=documents), by_file):
        values = {name: estimate.value for name, estimate in found.measures.items()}
        assert values["ppl"] == pytest.approx(math.exp(sum(nats) / size["tokens"]), rel=1e-4)
        assert values["bpb"] == pytest.approx(sum(nats) / size["bytes"] / math.log(2), rel=1e-5)
        assert values["bpc"] == pytest.approx(sum(nats) / size["chars"] / math.log(2), rel=1e-5)
        assert [row["words"] for row in found.rows] == [6, 7, 5]  # each of 水由氢和氧组成; 1, 2 或 者 3
        assert values["bpw"] == pytest.approx(sum(nats) / 18 / math.log(2), rel=1e-5)
        assert found.measures["bpb"].n == 3
    previous = measure(model, kind="perplexity", texts=documents[:1], given="previous")
    whole = bare(model, "".join(documents[0]))
    if whole[: len(bare(model, documents[0][0]))] == bare(model, documents[0][0]):
        assert -previous.rows[0]["loss"] == pytest.approx(sequence(model, [model.prefix_token], whole), abs=1e-3)


@pytest.mark.parametrize("name", ["blimp", "pararel"])
def test_shipped_suites_find_their_data(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = load_suite(name)
    model = model_of("byte_bpe")
    monkeypatch.setenv("ARGOSY_BENCHMARKS", str(shared(name).parent))
    found = run_probes(suite, model, "", chat=False, seed=0, limit=1)
    assert f"probe/{name}/{name}/acc" in found.metrics
    monkeypatch.delenv("ARGOSY_BENCHMARKS")
    word = {"name": "word", "kind": "perplexity", "texts": ["a"]}
    both = suite.model_copy(update={"probes": [*(suite.probes or []), word]})
    found = run_probes(both, model, "/absent/data", chat=False, seed=0, limit=1)
    assert list(found.failed) == [f"probe/{name}/{name}"]
    failed = found.failed[f"probe/{name}/{name}"]  # which names no path of a machine
    assert re.match(rf"{name} .* does not exist: .*ARGOSY_BENCHMARKS.* Get it from https://", failed)
    assert "/absent" not in failed
    assert f"probe/{name}/word/ppl" in found.metrics
