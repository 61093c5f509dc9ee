import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.statistics.metric import find
from argosy.corpus.demo.facts import load_facts, split_facts
from argosy.corpus.text.faults import Generated, faults
from argosy.evidence.judging.judges import answers_of
from argosy.evidence.judging.records import Prompt
from argosy.evidence.results.suite import Suite, load_suite
from argosy.model.infer.model import LanguageModel
from probes.kinds import KINDS, Scope, parse_probe, run_probes
from probes.kinds.generation import Generation
from probes.sources import FactSource, read_facts
from tests.evaluation_fixtures import make_language_model

SUITES = Path(__file__).parents[3] / "probes/suites"
CHAT = Scope(None, chat=True, seed=0, limit=None)


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


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_facts_are_worded_as_the_corpus_and_split_as_asked(data: Path, lang: Any) -> None:
    found, left_out = read_facts(FactSource(lang=lang), data, 0)
    assert left_out["no id, relation, subject, answer or taught"] == 1
    records = {r["id"]: r for r in map(json.loads, (data / "facts.jsonl").read_text().splitlines()[:-1])}
    assert len(found) == 120
    for fact in found:
        assert not records[fact.id]["taught"]
        assert (fact.candidates[0], len(set(fact.candidates))) == (records[fact.id]["answer"][lang], 4)
        for (right, *wrong), prefix in zip(fact.statements(), fact.prefixes, strict=True):
            assert right.startswith(prefix + fact.gap + fact.candidates[0])
            assert records[fact.id]["subject"][lang].lower() in prefix.lower()
            assert len(wrong) == 3
            assert prefix == prefix.rstrip()
    assert read_facts(FactSource(lang=lang), data, 0)[0] == found


def test_a_model_that_knows_scores_one_and_a_model_that_hates_zero(model: LanguageModel, data: Path) -> None:
    from argosy.model.infer.rows import Score

    facts, _ = read_facts(FactSource(lang="zh"), data, 0)
    right = {fact.candidates[0] for fact in facts}

    class Stub(LanguageModel):
        def __init__(self, sign: float) -> None:
            self.sign = sign

        def loglikelihood(self, pairs: Any, items: Any = None) -> list[Score]:
            known = {(p, f.candidates[0]) for f in facts for p in f.prefixes}
            return [Score(self.sign * ((p, c) in known), False, 1) for p, c in pairs]

    assert right
    probe = parse_probe({"name": "x", "kind": "cloze_fact", "facts": {"lang": "zh"}}, "s")
    for sign, value in ((1.0, 1.0), (-1.0, 0.0), (0.0, 0.0)):  # equal scores are not knowledge
        measured = probe.measure(Stub(sign), scope(data)).measures
        assert (measured["acc"].value, measured["acc_all"].value) == (value, value)
    assert measured["prob"].value == pytest.approx(0.25)


def test_shipped_suite_runs_and_names_its_metrics(model: LanguageModel, data: Path) -> None:
    suite = load_suite("probes")
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


RELATION = {"name": "r", "patterns": ["[X] is."], "facts": [["a", "b"], ["c", "d"]]}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": "clozefact"}, "did you mean 'cloze_fact'"),
        ({"kind": "perplexity", "text": ["a"]}, "text is not a field"),
        ({"kind": "contrastive"}, "one of pairs, file, facts"),
        ({"kind": "next_token", "cases": [{"prefix": "a", "text": ""}]}, "text"),
        ({"kind": "relation"}, "one of relations, file"),
        ({"kind": "relation", "relations": [RELATION]}, r"patterns has '\[X\] is\.'"),
        ({"kind": "relation", "file": "a", "candidates": 1}, "candidates is 1"),
        ({"kind": "contrastive", "pairs": [{"good": "a", "bad": ""}]}, "bad"),
        ({"kind": "contrastive", "pairs": [{"good": "a", "bad": "b"}], "group_by": "UID"}, "group_by .* needs file"),
        ({"kind": "perplexity", "texts": ["a", ""]}, "texts has an empty one"),
        ({"kind": "perplexity", "texts": ["a"], "given": "all"}, "given"),
        ({"kind": "winogender"}, "file is missing"),
        ({"kind": "next_token", "cases": [{"prefix": "a", "text": []}]}, "text is empty"),
        ({"kind": "next_token", "cases": []}, "cases is wrong: it is empty; allowed: a list of one or more"),
        ({"kind": "next_token", "cases": [{"prefix": "a", "text": "b", "agains": []}]}, r"nearest: cases\.0\.against$"),
        ({"texts": ["a"]}, "give its kind"),
        ({"kind": "generation"}, "give one of prompts, file"),
        ({"kind": "generation", "prompts": ["a"], "rules": ["lopp"]}, "loop"),
        ({"kind": "refusal", "harmful": ["a"]}, "harmful and harmless are both needed"),
        ({"kind": "refusal", "harmful": ["a"], "harmless": ["b"], "plain": "no slot"}, "plain"),
        ({"kind": "opener", "cases": [{"prompt": "a", "format": "xml"}]}, "the format 'xml'; allowed: json, list"),
        ({"kind": "opener", "cases": [{"prompt": "a", "format": "json"}], "formats": {"json": []}}, r"formats\.json"),
        ({"kind": "reply_language", "zh": ["a"]}, "en is missing"),
        ({"kind": "end_of_turn", "cases": [{"question": "a", "answer": ""}]}, "answer"),
    ],
)
def test_wrong_fields_are_named(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"(?s)suite s, probe 'x': .*{message}"):
        parse_probe({"name": "x", **entry}, "s")


def test_names_used_twice_and_data_that_is_absent(model: LanguageModel, tmp_path: Path) -> None:
    entry = {"name": "x", "kind": "perplexity", "texts": ["a"]}
    with pytest.raises(InputError, match="two probes are called 'x'"):
        run_probes(Suite(name="s", probes=[entry, entry]), model, "", chat=False, seed=0, limit=None)
    facts = {"name": "x", "kind": "cloze_fact"}
    with pytest.raises(InputError, match="need `data`"):
        run_probes(Suite(name="s", probes=[facts]), model, "", chat=False, seed=0, limit=None)
    with pytest.raises(InputError, match=r"facts\.jsonl does not exist"):
        run_probes(Suite(name="s", probes=[facts]), model, str(tmp_path), chat=False, seed=0, limit=None)


def test_every_documented_measure_is_declared_by_its_kind_and_no_other_is_taken() -> None:
    page = (SUITES.parents[1] / "docs/evaluation.md").read_text()
    table = page.partition("| kind | measures |")[2].partition("\n\n")[0]
    rows = [[cell.strip(" `") for cell in line.split("|")[1:4]] for line in table.splitlines()[2:]]
    assert {kind for kind, _, _ in rows} == {*KINDS} - {"generation"}  # its measures are the rules
    for kind, _, names in rows:
        for measure in set(re.findall(r"`(\w+)`", f"`{names}`")) - {"against"}:
            assert find(measure, KINDS[kind].declared), (kind, measure)
    entry = {"name": "x", "kind": "perplexity", "texts": ["a"]}
    with pytest.raises(RuntimeError, match="Perplexity does not declare its measure 'group/surprise'"):
        parse_probe(entry, "s").declaration("group/surprise")


def test_shares_are_those_of_the_answers_that_it_writes() -> None:
    model = make_language_model(positions=512)
    prompts = ("What is number 1?", "第2号是什么？", "What is number 3? Answer in JSON.")
    found = Generation(name="w", prompts=prompts, max_new_tokens=10).measure(model, CHAT)
    asked = [Prompt(str(n), text) for n, text in enumerate(prompts)]
    answers = answers_of(model, asked, chat=True, max_new_tokens=10, temperature=0.0, seed=0)
    each = [faults(Generated(p.text, a.text, a.ended)) for p, a in zip(asked, answers, strict=True)]
    assert [row["answer"] for row in found.rows] == [answer.text for answer in answers]
    assert found.measures["unfinished"].value == pytest.approx(sum(f["unfinished"] for f in each) / 3)
    assert found.measures["invalid_json"].n == 1
    assert found.measures["faultless"].value == pytest.approx(sum(not any(f.values()) for f in each) / 3)
    assert 0 < found.measures["distinct2"].value <= 1
