import json
import math
from pathlib import Path
from typing import Any

import pytest

from argosy.demo.facts import load_facts, split_facts
from argosy.errors import InputError
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.suite import Suite, load_suite
from probes.facts import FactSource, read_facts
from probes.kinds import registered
from probes.probe import Scope
from probes.runner import parse_probe, run_probes
from tests.evaluation_fixtures import make_language_model

SUITES = Path(__file__).parents[2] / "probes/suites"


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return make_language_model()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    taught, _ = split_facts(load_facts(), 0, 0.5)
    known = {fact.id for fact in taught}
    records = [
        {"id": f.id, "relation": f.relation, "subject": f.subject, "answer": f.answer, "taught": f.id in known}
        for f in load_facts()
    ]
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    (folder / "facts.jsonl").write_text("\n".join([*lines, '{"id": "x", "relation": "r", "taught": false}']))
    return folder


def scope(data: Path | None = None) -> Scope:
    return Scope(data, chat=False, seed=0, limit=None)


def direct(model: LanguageModel, context: str, text: str) -> list[float]:
    """Log-probabilities of the text's tokens, by the model's own loss, token by token."""
    import torch

    whole, before = (model.tokenizer(t, add_special_tokens=False)["input_ids"] for t in (context + text, context))
    tokens = torch.tensor([[model.tokenizer.bos_token_id, *whole]])
    with torch.no_grad():
        logprobs = torch.log_softmax(model.model(tokens).logits[0].double(), dim=-1)
    return [float(logprobs[n - 1, tokens[0, n]]) for n in range(1 + len(before), tokens.shape[1])]


def test_next_token_by_direct_computation(model: LanguageModel) -> None:
    import torch

    prefix, text = "长江", " river"
    found = parse_probe({"name": "x", "kind": "next_token", "cases": [{"prefix": prefix, "text": text}]}, "s").measure(
        model, scope()
    )
    expected = direct(model, prefix, text)
    assert found.measures["prob"].value == pytest.approx(math.exp(sum(expected)), rel=1e-4)
    with torch.no_grad():
        logits = model.model(torch.tensor([model.tokenizer(prefix)["input_ids"]])).logits[0, -1]
    first = model.tokenizer(prefix + text)["input_ids"][len(model.tokenizer(prefix)["input_ids"])]
    assert found.measures["rank"].value == 1 + int((logits > logits[first]).sum())
    assert found.measures["mass"].value >= found.measures["prob"].value  # tests/unit/test_probes_continuation.py
    starts = [n for n in range(len(logits)) if model.tokenizer.decode([n]).startswith("r")]
    letter = {"name": "x", "kind": "next_token", "cases": [{"prefix": prefix, "text": "r"}]}
    mass = parse_probe(letter, "s").measure(model, scope()).measures["mass"]
    assert mass.value == pytest.approx(float(logits.softmax(-1)[starts].sum()), abs=1e-6)


def test_contrastive_by_direct_computation(model: LanguageModel) -> None:
    pairs = [{"good": "river stone", "bad": "stone river"}, {"good": "长江 茶", "bad": "茶 长江 定理"}]
    found = parse_probe({"name": "x", "kind": "contrastive", "pairs": pairs}, "s").measure(model, scope())
    sums = [(direct(model, "", pair["good"]), direct(model, "", pair["bad"])) for pair in pairs]
    assert found.measures["acc"].value == sum(sum(a) > sum(b) for a, b in sums) / 2
    assert found.measures["acc_token"].value == sum(sum(a) / len(a) > sum(b) / len(b) for a, b in sums) / 2
    assert found.measures["margin"].value == pytest.approx(sum(sum(a) - sum(b) for a, b in sums) / 2, abs=1e-3)


def test_perplexity_by_direct_computation(model: LanguageModel) -> None:
    texts = ["river stone, Paris", "定理 蓝鲸"]
    found = parse_probe({"name": "x", "kind": "perplexity", "texts": texts}, "s").measure(model, scope())
    losses = [direct(model, "", text) for text in texts]
    nats, tokens = -sum(map(sum, losses)), sum(map(len, losses))
    assert found.measures["ppl"].value == pytest.approx(math.exp(nats / tokens), rel=1e-4)
    size = sum(len(text.encode()) for text in texts)
    assert found.measures["bpb"].value == pytest.approx(nats / size / math.log(2), rel=1e-5)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_facts_are_worded_as_the_corpus_and_split_as_asked(data: Path, lang: Any) -> None:
    found, left_out = read_facts(FactSource(lang=lang), scope(data))
    assert left_out["no id, relation, subject, answer or taught"] == 1
    records = {r["id"]: r for r in map(json.loads, (data / "facts.jsonl").read_text().splitlines()[:-1])}
    assert len(found) == 120
    for fact in found:
        assert not records[fact.id]["taught"]
        assert fact.candidates[0] == records[fact.id]["answer"][lang]
        assert len(set(fact.candidates)) == 4
        for (right, *wrong), prefix in zip(fact.statements(), fact.prefixes, strict=True):
            assert right.startswith(prefix + fact.gap + fact.candidates[0])
            assert records[fact.id]["subject"][lang].lower() in prefix.lower()
            assert len(wrong) == 3
            assert prefix == prefix.rstrip()
    assert read_facts(FactSource(lang=lang), scope(data))[0] == found


def test_a_model_that_knows_scores_one_and_a_model_that_hates_zero(model: LanguageModel, data: Path) -> None:
    from argosy.evaluation.scoring import Score

    facts, _ = read_facts(FactSource(lang="zh"), scope(data))
    right = {fact.candidates[0] for fact in facts}

    class Stub(LanguageModel):
        def __init__(self, sign: float) -> None:
            self.sign = sign

        def loglikelihood(self, pairs: Any) -> list[Score]:
            known = {(p, f.candidates[0]) for f in facts for p in f.prefixes}
            return [Score(self.sign * ((p, c) in known), False, 1) for p, c in pairs]

    assert right
    probe = parse_probe({"name": "x", "kind": "cloze_fact", "facts": {"lang": "zh"}}, "s")
    for sign, value in ((1.0, 1.0), (-1.0, 0.0), (0.0, 0.0)):  # equal scores are not knowledge
        measured = probe.measure(Stub(sign), scope(data)).measures
        assert measured["acc"].value == value
        assert measured["acc_all"].value == value
    assert measured["prob"].value == pytest.approx(0.25)


def test_shipped_suite_runs_and_names_its_metrics(model: LanguageModel, data: Path) -> None:
    suite = load_suite("probes", "", [SUITES])
    found = run_probes(suite, model, str(data), chat=True, seed=0, limit=6)
    assert {name.split("/")[2] for name in found.metrics} == {probe["name"] for probe in suite.probes or []}
    assert all(name.startswith("probe/probes/") for name in found.metrics)
    assert all(math.isfinite(value) for value in found.metrics.values())
    assert {row["variant"] for row in found.rows} == {probe["name"] for probe in suite.probes or []}


def test_blimp_files_and_broken_lines(model: LanguageModel, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"sentence_good": "river", "sentence_bad": "rivr"}\n{"good": "a"}\n{"good": "a", "bad": "a"}\n')
    found = parse_probe({"name": "x", "kind": "contrastive", "file": str(file)}, "s").measure(model, scope())
    assert found.measures["acc"].n == 1
    assert found.left_out == {"no pair of sentences": 1, "good and bad are the same": 1}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "x", "kind": "clozefact"}, "did you mean 'cloze_fact'"),
        ({"name": "x", "kind": "perplexity", "text": ["a"]}, "(?s)probe 'x'.*text is not a field"),
        ({"name": "x", "kind": "contrastive"}, "one of pairs, file, facts"),
        ({"name": "x", "kind": "next_token", "cases": [{"prefix": "a", "text": ""}]}, "text"),
    ],
)
def test_wrong_suites_are_named(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_probe(entry, "s")


def test_names_used_twice_and_data_that_is_absent(model: LanguageModel, tmp_path: Path) -> None:
    entry = {"name": "x", "kind": "perplexity", "texts": ["a"]}
    with pytest.raises(InputError, match="two probes are called 'x'"):
        run_probes(Suite(name="s", probes=[entry, entry]), model, "", chat=False, seed=0, limit=None)
    facts = {"name": "x", "kind": "cloze_fact"}
    with pytest.raises(InputError, match="need `data`"):
        run_probes(Suite(name="s", probes=[facts]), model, "", chat=False, seed=0, limit=None)
    with pytest.raises(InputError, match=r"facts\.jsonl does not exist"):
        run_probes(Suite(name="s", probes=[facts]), model, str(tmp_path), chat=False, seed=0, limit=None)


def test_every_module_of_kinds_is_registered() -> None:
    modules = {path.stem for path in (SUITES.parent / "kinds").glob("[!_]*.py")}
    assert set(registered()) == modules
