"""Our YAML from lm-eval's own harness, with its HFLM, against our runner on the same suite."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.evidence.results.suite import load_suite
from argosy.model.infer.model import LanguageModel
from evals.runner import prepare
from evals.section import Benchmarks
from evals.variants import VARIANTS as KINDS
from tests import benchmark_files as files
from tests.evaluation_fixtures import make_language_model
from tests.lm_eval_fixtures import hflm

ROOT = Path(__file__).parents[3]
TASKS = ROOT / "evals/tasks"
VARIANTS = {path.stem: yaml.load(path.read_text(), Loader=yaml.BaseLoader) for path in TASKS.glob("variants/*.yaml")}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few items of every benchmark, as they are published."""
    root = tmp_path_factory.mktemp("benchmarks")
    for task in (files.openbookqa(14), files.arc_easy(6), files.piqa(6), files.social_iqa(6), files.winogrande(6),
                 files.mathqa(6), files.hellaswag(6), files.ceval(6), files.cmmlu(6), files.gaokao(4),
                 files.gsm8k(24, 12), files.truthfulqa(2, 6), files.blimp("adjunct_island", 6),
                 files.mmlu("college_biology", 8), files.mmlu("international_law", 5), files.mmlu("sociology", 7),
                 files.mmlu("virology", 6)):  # fmt: skip
        task.write(root)
    (root / "arc/ARC-Challenge-Test.jsonl").write_text((root / "arc/ARC-Easy-Test.jsonl").read_text())
    return root


@cache
def model() -> LanguageModel:
    return make_language_model(8192)  # few-shot prompts are long in its few tokens; what has no room is not asked


def harness(names: list[str], **metadata: Any) -> dict[str, Any]:
    """What lm-eval makes of tasks and groups of ours."""
    from lm_eval.evaluator import evaluate
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(TASKS), include_defaults=False, metadata=metadata)
    found: dict[str, Any] = evaluate(hflm(model()), manager.load(names), bootstrap_iters=100)
    return found


def metrics_of(results: dict[str, Any]) -> dict[str, float]:
    return {key.removesuffix(",none"): float(value) for key, value in results.items()
            if key.endswith(",none") and isinstance(value, int | float) and "_stderr" not in key}  # fmt: skip


def ours(suite: str, task: str, variants: dict[str, Any], data: Path, limit: int | None = None) -> Any:
    spec = load_suite(suite).section("benchmarks", Benchmarks).tasks[task]
    section = Benchmarks(tasks={task: spec.model_copy(update={"variants": {}})}, variants=variants)
    return prepare(section, data, seed=0, limit=limit)(model(), False)


NUMBERS = {"argosy_five_shot", "argosy_changed_numbers"}
ASKED = {"openbookqa": set(VARIANTS) - {"argosy_changed_numbers", "argosy_variants"}, "gsm8k": NUMBERS,
         "gaokao": {"argosy_plain", "argosy_cloze", "argosy_permuted", "argosy_single_answers", "argosy_statements",
                    "argosy_generative", "argosy_pride"}}  # fmt: skip


LIMIT = {"gsm8k": 5, "gaokao": 1}  # items of a file; of five, two can be asked with other numbers


@pytest.mark.parametrize("suite", ASKED)
def test_every_variant_gives_in_lm_eval_what_our_runner_gives(suite: str, data: Path) -> None:
    names = sorted(ASKED[suite])
    limit = LIMIT.get(suite)
    found = harness(names, suite=suite, data=str(data), limit=limit)["results"]
    chains = {name: yaml.safe_load(variant(name)) for name in names}
    findings = ours(suite, suite, chains, data, limit)
    for name in names:
        theirs = metrics_of(found[name])
        assert {"acc", "chance"} <= set(theirs)
        mine = {metric: findings.metrics[f"bench/{suite}/{name}/{metric}"] for metric in theirs}
        assert theirs == pytest.approx(mine, abs=1e-9)
        assert isinstance(found[name]["acc_stderr,none"], float)
        if found[name]["sample_len"] == findings.counts[f"bench/{suite}/{name}/acc"] and suite != "gaokao":
            # A question an item: lm-eval's error is ours. (Passages of gaokao are clusters to us alone.)
            assert found[name]["acc_stderr,none"] == pytest.approx(findings.stderr[f"bench/{suite}/{name}/acc"])


def variant(name: str) -> str:
    return (TASKS / f"variants/{name}.yaml").read_text().partition("variant: ")[2]


def test_groups_weigh_their_tasks_and_have_errors(data: Path) -> None:
    found = harness(["argosy_mmlu_categories", "argosy_truthfulqa"], data=str(data))
    results = found["results"]
    sizes = {"stem": 8, "humanities": 5, "social_sciences": 7, "other": 6}
    parts = {name: results[f"argosy_mmlu_{name}"] for name in sizes}
    assert {name: part["sample_len"] for name, part in parts.items()} == sizes
    whole = sum(part["acc,none"] * sizes[name] for name, part in parts.items()) / sum(sizes.values())
    assert results["argosy_mmlu_categories"]["acc,none"] == pytest.approx(whole)
    assert 0 < results["argosy_mmlu_categories"]["acc_stderr,none"] < 0.3
    assert 0 < results["argosy_truthfulqa_mc2"]["mass,none"] < 1


def test_every_task_and_group_loads_and_every_variant_has_one(data: Path) -> None:
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(TASKS), include_defaults=False, metadata={"data": str(data)})
    assert {path.stem for path in TASKS.glob("groups/*.yaml")} <= set(manager.all_groups)
    every = [path.stem for path in TASKS.glob("benchmarks/*.yaml")]
    assert set(manager.load(every)["tasks"]) == set(every)
    assert manager.load(["argosy_benchmarks"])["group_map"]["argosy_benchmarks"]
    for path in TASKS.glob("*/*.yaml"):
        about = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
        assert path.stem == about.get("task" if "group" not in about else "group")
    named = str([about.get("metadata") for about in VARIANTS.values()])
    # a suite alone gives these their texts, or a model of their own
    assert [name for name in KINDS if name not in named] == ["layout", "learn_then_ask", "lm_eval", "template"]
