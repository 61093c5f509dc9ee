"""Questions longer than the model: what is cut is counted, what cannot be asked is left out with its reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.evidence.results.findings import Findings
from argosy.evidence.results.suite import Suite
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.scorer import Fit
from evals.lm_eval.run import ArgosyLM
from evals.runner import run_benchmarks
from evals.section import Benchmarks
from probes.kinds import run_probes
from tests.evaluation_fixtures import make_language_model
from workflows.cli.evaluate import _lines


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return make_language_model(128)


def run(model: LanguageModel, root: Path, lines: list[dict[str, Any]], variant: Any) -> Findings:
    (root / "items.jsonl").write_text("".join(json.dumps({"lang": "en", **line}) + "\n" for line in lines))
    section = Benchmarks.model_validate({"tasks": {"t": ["items.jsonl"]}, "variants": {"v": variant}})
    return run_benchmarks(section, model, root, chat=False, seed=0, limit=None)


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
        {"name": "pair", "kind": "contrastive", "pairs": [{"context": "a", "good": "river", "bad": long}]},
    ]
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
