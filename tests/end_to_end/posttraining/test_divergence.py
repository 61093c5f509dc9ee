"""Post-training that diverges fails, and says where and what to do; nothing is exported."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from argosy.errors import StepError
from argosy.posttraining.stage import check_heldout
from argosy.step.contract import Progress, StepContext
from argosy.tracking.tracker import Tracker
from tests.posttraining_fixtures import make_checkpoint, make_data


@pytest.mark.parametrize(
    ("step", "values"),
    [
        ("sft", {}),
        ("dpo", {}),
        ("reward_model", {}),
        ("rlhf", {"method": "ppo", "rewards": {"accept": 1.0}, "max_new_tokens": 6}),
    ],
)
@pytest.mark.parametrize("log_every", [1, 100])
def test_a_step_that_diverges_fails(tmp_path: Path, step: str, values: dict[str, Any], log_every: int) -> None:
    module = importlib.import_module(f"steps.{step}")
    config = module.STEP.config.model_validate({
        "checkpoint": str(make_checkpoint(tmp_path / "base")), "data": str(make_data(tmp_path / "data")),
        "learning_rate": 1e30, "warmup_ratio": 0.0, "dtype": "float32", "max_steps": 6, "batch_size": 8,
        "micro_batch_size": 8, "heldout_limit": 4, "log_every": log_every, "save_every": 100, **values,
    })  # fmt: skip
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(StepError, match=r"step [1-6].*(is (nan|inf)|not finite).*lower learning_rate"):
        module.run(config, StepContext(out, Tracker(None), Progress(None)))
    assert not (out / "checkpoints").exists()


def test_heldout_results_that_are_no_numbers_are_named() -> None:
    with pytest.raises(StepError, match=r"after step 7, heldout/loss is nan"):
        check_heldout({"heldout/loss": 1.0}, {"heldout/loss": float("nan")}, 7)
    with pytest.raises(StepError, match=r"before training, heldout/loss is inf: the checkpoint"):
        check_heldout({"heldout/loss": float("inf")}, {}, 7)
    check_heldout({"heldout/loss": 1.0}, {"heldout/loss": 0.5}, 7)
