"""The page of `argosy cases`: the questions that differ and no others, with the evaluation's own numbers; and its
marks, whose suite asks the same question: equal log-probabilities."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.report import page as pages
from argosy.evidence.report.cases import Case, Cases, find_cases, page
from argosy.evidence.report.items import Asked
from argosy.evidence.results.items import write_items as write_rows
from argosy.evidence.results.suite import load_suite
from evals.section import remake_questions
from probes.kinds import run_probes
from steps.compare import question_texts
from tests.command_line import Argosy
from tests.comparison_fixtures import entry, node
from tests.evaluation_fixtures import ask_benchmarks, make_items, make_language_model, write_items
from tests.html_tags import TagReader, check_no_markup, check_self_contained
from tests.report_fixtures import make_store

NODE = shutil.which("node")
SCRIPT = Path(pages.__file__).parent / "templates/cases.js"


def row(name: str, scores: list[float], chosen: int, gold: int = 0, **more: Any) -> dict[str, Any]:
    return {"task": "t", "variant": "plain", "id": name, "item": name, "lang": "en", "correct": chosen == gold,
            "chosen": chosen, "gold": gold, "scores": scores, **more}  # fmt: skip


def written(name: str, text: str, right: bool) -> dict[str, Any]:
    return row(name, [], 0 if right else -2) | {"variant": "generative", "text": text, "extracted": text}


def data_of(html: str) -> Any:
    return json.loads(next(text for text in TagReader(html).text if text.startswith('{"labels"')))


LOGS = [-0.1, -3.0]
FIRST = [row("gained", LOGS[::-1], 1), row("lost", LOGS, 0), row("same", LOGS, 0), row("less", LOGS, 0),
         row("other", LOGS, 0, asked="1"), written("w", "x", False), written("v", "y", True)]  # fmt: skip
SECOND = [row("gained", LOGS, 0), row("lost", LOGS[::-1], 1), row("same", [-0.11, -3.0], 0),
          row("less", [-0.1, -0.4], 0),
          row("other", LOGS[::-1], 1, asked="2"), written("w", "z", False), written("v", "y", True)]  # fmt: skip
GROUPS = [("t", "plain"), ("t", "generative")]


def found_of(least: float = 0.1, most: int = 100) -> Cases:
    return find_cases([entry("a", FIRST), entry("b", SECOND)], GROUPS, least, most)


def test_what_differs_is_found_and_nothing_else() -> None:
    found = found_of()
    assert {case.key[2] for case in found.chosen} == {"gained", "lost", "less", "w"}  # "other" was asked otherwise
    assert found.totals == {("t", "plain"): (4, 1, 1, 1), ("t", "generative"): (2, 0, 0, 1)}
    share = 1 / (1 + 2.718281828**-2.9)
    changes = {case.key[2]: case.change for case in found.chosen}
    assert changes["gained"] == pytest.approx(2 * share - 1, abs=2e-3) == pytest.approx(-changes["lost"], abs=2e-3)
    assert {case.key[2] for case in found_of(least=0.5).chosen} == {"gained", "lost", "w"}
    assert [case.key[2] for case in found_of(most=2).chosen] == ["gained", "w"]  # of each form the first


def test_the_page_is_whole_has_the_comparisons_numbers_and_no_text_becomes_markup() -> None:
    found = found_of()
    hostile = "</script><img src=x> \u202e\u2028 中文"
    html = page(found, {case.key: Asked(hostile + case.key[2], ("a", "b"), " ") for case in found.chosen})
    assert {"app", "find", "list", "case"} <= check_self_contained(html)
    check_no_markup(html, scripts=3)
    data = data_of(html)
    assert len(data["items"]) == 4
    assert data["items"][1]["k"] == len(hostile)  # what it shares with the one before is there once
    (c,) = [c for c in found.compared.pairs[0].contrasts if c.name == "bench/t/plain/acc"]
    assert f"{100 * c.difference.value:+.1f}" in html


@pytest.mark.skipif(NODE is None, reason="no node to run the page's script")
def test_marked_questions_become_probes_that_ask_the_same(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_items(data / "q.jsonl", make_items(8))
    variants = {"plain": None, "cloze": None, "generative": {"generative": {"max_tokens": 4}}}
    section = {"tasks": {"q": ["q.jsonl"]}, "variants": variants}
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump({"benchmarks": section}))
    model = make_language_model()
    rows = ask_benchmarks(model, data, section).rows
    made = remake_questions(load_suite(str(own)), data, 0, [(r["task"], r["variant"], r["id"]) for r in rows])
    asked = {key: Asked(q.prompt, tuple(q.continuations), q.before, q.prompts,
                        q.generation.answer if q.generation else "") for key, q in made.items()}  # fmt: skip
    groups = sorted({(r["task"], r["variant"]) for r in rows})
    cases = find_cases([entry("a", rows), entry("b", rows)], groups, 0.0, 1000)
    suite = tmp_path / "marked.yaml"
    suite.write_text(suite_of(page(cases, asked), tmp_path), encoding="utf-8")
    assert len(cases.chosen) == len(rows)
    findings = run_probes(load_suite(str(suite)), model, "", chat=False, seed=0, limit=None)
    assert not findings.failed
    of = {case.key: case.rows[0] for case in cases.chosen}
    for task, variant in groups:
        probed = [r for r in findings.rows if r["variant"] == f"{task}_{variant}"]
        asked_rows = [of[key] for key in sorted(of) if key[:2] == (task, variant)]
        assert len(probed) == len(asked_rows) == 8
        for ours, theirs in zip(probed, asked_rows, strict=True):
            if theirs["scores"]:
                right = theirs["scores"][theirs["gold"]]
                wrong = [s for n, s in enumerate(theirs["scores"]) if n != theirs["gold"]]
                assert ours["scores"] == pytest.approx([right, *wrong], abs=1e-4)


@pytest.mark.skipif(NODE is None, reason="no node to run the page's script")
def test_texts_come_back_as_they_were_and_options_in_the_prompt_become_pairs(tmp_path: Path) -> None:
    odd = 'a "b" \\ \u0085\u2028\ufeff\x7f\n  : - # 𠮷 é'
    rows = [row("x", LOGS, 0), row("y", LOGS, 1, gold=1)]
    cases = Cases(found_of().compared, {("t", "plain"): (2, 0, 0, 2)},
                  [Case(("t", "plain", r["id"]), (r, r), (True, True), 0.0) for r in rows])  # fmt: skip
    asked = {("t", "plain", "x"): Asked(odd + "1", ("one", odd), " "),
             ("t", "plain", "y"): Asked(odd + "2", ("end", "end"), " ", (f"{odd}2", f"{odd}3"))}  # fmt: skip
    probes = yaml.safe_load(suite_of(page(cases, asked), tmp_path))["probes"]
    assert probes[0]["cases"] == [{"prefix": odd + "1", "text": [" one"], "against": [" " + odd]}]
    assert probes[1]["name"] == "t_plain_pairs"
    assert probes[1]["pairs"] == [{"good": f"{odd}3", "bad": f"{odd}2", "after": " end"}]


def test_texts_are_found_where_a_store_has_moved_and_none_is_of_other_words(tmp_path: Path) -> None:
    first = node(tmp_path, "data", "data", {}, {})
    write_items(first / "q.jsonl", make_items(8))
    section: dict[str, Any] = {"tasks": {"q": ["q.jsonl"]}, "variants": {"plain": None, "cloze": None}}
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump({"benchmarks": section}))
    rows = ask_benchmarks(make_language_model(), first, section).rows
    evaluation = node(tmp_path, "evaluate", "evaluate", {}, {}, upstream={"data": [first.name.rpartition("-")[2]]},
                      run={"config": {"suite": "own", "suite_file": str(own), "data": "/gone/data", "seed": 0}})
    write_rows(evaluation, rows)
    checkpoint = Checkpoint("a", "a", "sft", "final", 1, 0)
    checkpoint.evaluations.append(evaluation)
    keys = [(row["task"], row["variant"], row["id"]) for row in rows]
    told: list[str] = []
    assert question_texts([checkpoint], keys, told.append).keys() == set(keys)
    assert not told
    section["variants"]["plain"] = {"labels": {"symbols": "numerals"}}
    own.write_text(yaml.safe_dump({"benchmarks": section}))
    assert {key[1] for key in question_texts([checkpoint], keys, told.append)} == {"cloze"}
    first.rename(tmp_path / "away")
    assert not question_texts([checkpoint], keys, told.append)
    assert re.search("^8 of 16 questions .*own.yaml asks in other words", told[0])
    assert re.search("^16 of 16 questions .*q.jsonl does not exist", told[1])


def suite_of(html: str, folder: Path) -> str:
    """What the page's script downloads when all questions are marked."""
    (folder / "data.json").write_text(json.dumps(data_of(html)), encoding="utf-8")
    run = ("const data = JSON.parse(require('fs').readFileSync(process.argv[1], 'utf8'));"
           "process.stdout.write(suite(restored(data.items), data.groups, data.labels));")  # fmt: skip
    script = SCRIPT.read_text(encoding="utf-8") + run
    return subprocess.run([str(NODE), "-e", script, str(folder / "data.json")], check=True, capture_output=True,
                          encoding="utf-8").stdout  # fmt: skip


def test_the_command_says_where_the_page_is_and_what_it_cannot_show(tmp_path: Path, argosy: Argosy) -> None:
    store = make_store(tmp_path / "runs").root
    file = tmp_path / "cases.html"
    options = ("--store", str(store), "--html", str(file))
    said = argosy("cases", "pretrain", "sft", "--task", "f*", "--form", "plain", *options).out
    assert re.search(rf"page: {file} \(\d+ questions that differ", said)
    items = data_of(file.read_text())["items"]
    assert items
    assert all(item["p"] for item in items)
    assert "matches none" in argosy("cases", "pretrain", "sft", "--task", "mmlu", *options, code=2).err
    assert "--html" in argosy("cases", "pretrain", "sft", "--store", str(store), "--html", str(tmp_path), code=2).err
