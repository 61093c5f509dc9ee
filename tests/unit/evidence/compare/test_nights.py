"""Judgements on made-up models: what is worse beyond noise is called so, and nothing else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from steps.regressions import STEP, RegressionsConfig
from tests.report_fixtures import HONEST, Model, make_store
from tests.step_fixtures import run_step

PRETRAINED, SFT = HONEST[2], HONEST[-1]


def judged(root: Path, *models: Model, pairs: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Judge the second model and those after it against the first one; returns the outputs."""
    evaluations: list[str] = []
    for number, model in enumerate(models):
        evaluations += make_store(root, [model], items=80, line=str(number)).evaluations
    given = pairs or [{"new": [2 * n, 2 * n + 1], "reference": [0, 1]} for n in range(1, len(models))]
    config = RegressionsConfig.model_validate({"evaluations": evaluations, "pairs": given})
    return run_step(STEP, config, root / "regressions-000000000001")


def test_who_has_seen_the_test_is_told_whether_it_is_worse_or_not(tmp_path: Path) -> None:
    found = judged(tmp_path, SFT, replace(SFT, memorised=0.9, step=302), replace(SFT, step=301))
    verdicts = [each["contamination"]["facts"]["verdict"] for each in found["judged"]]
    assert verdicts[0] == "likely" != verdicts[1]
    page = (tmp_path / "regressions-000000000001/report.html").read_text()
    assert page.count("has likely seen facts: score +") == 1
    assert found["judged"][0]["verdict"] != "worse"


def test_text_that_a_later_stage_forgets_is_no_regression(tmp_path: Path) -> None:
    reference = replace(PRETRAINED, knows=0.6)
    found = judged(tmp_path, reference, replace(SFT, knows=0.6, forgot=0.8))
    [only] = found["judged"]
    assert (only["heldout"]["code"]["verdict"], only["regressions"]) == ("worse", [])
