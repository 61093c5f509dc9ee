"""Few-shot, generated and numeric variants run on a model, and their questions can be made again."""

from pathlib import Path

import pytest

from argosy.evidence.results.suite import Suite
from evals.chain import parse_chain
from evals.runner import run_benchmarks
from evals.section import Benchmarks, remake_questions
from evals.task import read_task
from tests.evaluation_fixtures import make_items, make_language_model, write_items
from tests.step_fixtures import write_lines

VARIANTS = {
    "few": [{"few_shot": {"n": 2}}],
    "written": [{"few_shot": {"n": 1}}, {"generative": {"max_tokens": 4}}],
    "pride": {"pride": {"share": 0.5}},
    "others": "other_distractors",
    "statements": {"single_answers": {"mode": "statements"}},
    "wordings": {"paraphrased": {"k": 2}},
    "none": "none_of_the_others",
}
SUM = {"question": "A hen lays {} eggs and Jo eats 3. How many are left?", "answer": "<<{}-3={}>>{} are left.\n#### {}"}


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    write_items(path / "facts.jsonl", make_items(60))
    write_lines(path / "sums.jsonl", (
        {name: text.format(*[n, n - 3, n - 3, n - 3][: text.count("{}")]) for name, text in SUM.items()}
        for n in range(7, 15)))
    return path


def _section() -> Benchmarks:
    sums = {"files": ["sums.jsonl"], "format": "gsm8k", "only": [],
            "variants": {"other_numbers": ["changed_numbers", {"generative": {"max_tokens": 6}}]}}  # fmt: skip
    return Benchmarks.model_validate({"tasks": {"facts": ["facts.jsonl"], "sums": sums}, "variants": VARIANTS})


def test_each_runs_and_says_what_it_measures(where: Path) -> None:
    found = run_benchmarks(_section(), make_language_model(1024), where, chat=False, seed=0, limit=40)
    names: dict[str, set[str]] = {}
    for name in found.metrics:
        _, task, variant, metric = name.split("/")
        if task in ("facts", "sums"):
            names.setdefault(variant, set()).add(metric)
    orders = {"acc", "acc_all", "consistency", "acc_averaged", "position_bias", "chance"}
    assert names == {"few": {"acc", "chance"}, "written": {"acc", "unparsable", "chance"},
                     "pride": {"acc", "acc_pride", "chance"}, "others": {"acc", "chance"},
                     "statements": {"acc", "acc_all", "chance"}, "wordings": orders, "none": {"acc", "chance"},
                     "other_numbers": {"acc", "unparsable", "chance"}}
    assert found.kinds.keys() == found.metrics.keys()  # each has a declaration
    better = {name: found.kinds[f"bench/facts/{name}/acc"].better for name in ("few", "none")}
    assert better == {"few": "higher", "none": "neither"}
    assert found.metrics["bench/facts/few/chance"] == 0.25
    assert found.metrics["bench/facts/statements/chance"] == 0.5
    left_out = sum(found.left_out.get("bench/sums/other_numbers", {}).values())
    assert found.counts["bench/sums/other_numbers/acc"] + left_out == 8


def test_their_questions_are_made_again_as_they_were_asked(where: Path) -> None:
    """With the same limit, since examples and other items' options depend on which items there are."""
    section = _section()
    chosen = read_task(section.tasks["facts"], where, 40).items
    suite = Suite.model_validate({"name": "x", "benchmarks": section.model_dump(mode="json")})
    for variant in ("few", "others", "pride"):
        asked, _ = parse_chain(variant, VARIANTS[variant]).all_questions(chosen, 0)
        wanted = [("facts", variant, question.id) for question in asked]
        again = remake_questions(suite, where, 0, wanted, limit=40)
        assert [again[key] for key in wanted] == asked
    every = remake_questions(suite, where, 0, [("facts", "few", chosen[0].id)])
    assert every
    assert remake_questions(suite, where, 0, [("sums", "other_numbers", "sums/0")])
