"""The probe that lets a model write."""

from __future__ import annotations

from pathlib import Path

import pytest

from argosy.errors import InputError
from argosy.judging.answers import answers_of
from argosy.judging.records import Prompt
from argosy.quality import Generated, faults
from probes.kinds.generation import Generation
from probes.probe import Scope
from probes.runner import parse_probe
from tests.evaluation_fixtures import make_language_model

SCOPE = Scope(data=None, chat=True, seed=0, limit=None)


def test_shares_are_those_of_the_answers_that_it_writes() -> None:
    model = make_language_model(positions=512)
    prompts = ("What is number 1?", "第2号是什么？", "What is number 3? Answer in JSON.")
    found = Generation(name="w", prompts=prompts, max_new_tokens=10).measure(model, SCOPE)
    asked = [Prompt(str(n), text) for n, text in enumerate(prompts)]
    answers = answers_of(model, asked, chat=True, max_new_tokens=10, temperature=0.0, seed=0)
    each = [faults(Generated(p.text, a.text, a.ended)) for p, a in zip(asked, answers, strict=True)]
    assert [row["answer"] for row in found.rows] == [answer.text for answer in answers]
    assert found.measures["unfinished"].value == pytest.approx(sum(f["unfinished"] for f in each) / 3)
    assert found.measures["invalid_json"].n == 1
    assert found.measures["faultless"].value == pytest.approx(sum(not any(f.values()) for f in each) / 3)
    assert 0 < found.measures["distinct2"].value <= 1


def test_a_file_of_prompts_and_some_rules(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "a", "prompt": "What is number 1?"}\nbroken\n')
    probe = Generation(name="w", file=str(tmp_path / "p.jsonl"), max_new_tokens=4, rules=("empty", "loop"))
    found = probe.measure(make_language_model(), SCOPE)
    assert set(found.measures) <= {"empty", "loop", "faultless", "length", "distinct2"}
    assert found.left_out == {"p.jsonl: not JSON": 1}
    assert found.rows[0]["id"] == "a"


@pytest.mark.parametrize(("fields", "said"), [
    ({}, "give one of prompts, file"), ({"prompts": ["a"], "rules": ["lopp"]}, "loop")])  # fmt: skip
def test_a_wrong_field_is_named(fields: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_probe({"name": "w", "kind": "generation", **fields}, "mine")
