"""Paths of `make test-gpu`: each is a config that its step takes, and a difference beyond its band is told."""

import importlib
import math
from typing import Any

import pytest
import yaml

from tests.gpu.__main__ import INPUTS, PATHS, farthest

LISTED: dict[str, Any] = yaml.safe_load(PATHS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", LISTED["paths"])
def test_step_takes_the_fields_of_a_path(name: str) -> None:
    path = LISTED["paths"][name]
    step = importlib.import_module(f"steps.{path['step']}").STEP
    for more in ({}, path.get("gpu", {})):
        given = {**LISTED["steps"][path["step"]]["config"], **path.get("both", {}), **more, **INPUTS[path["step"]]}
        step.config.model_validate(given)


def test_farthest_point_of_the_compared_series_is_found() -> None:
    plain = {"train/loss": [(1, 4.0), (2, 2.0)], "train/loss/en": [(1, 0.5)], "perf/mfu": [(1, 0.1)]}
    moved = plain | {"train/loss": [(1, 4.0), (2, 2.5)]}
    assert farthest(plain, moved, "train/loss(/.+)?") == (0.25, "train/loss at 2")
    assert farthest(plain, plain | {"train/loss/en": [(1, 0.6)]}, "train/loss(/.+)?")[0] == pytest.approx(0.1)
    for other in ({}, plain | {"train/loss": [(1, math.nan), (2, 2.0)]}):
        assert farthest(plain, other, "train/loss(/.+)?")[0] == math.inf
    assert farthest(plain, plain, "nothing")[0] == math.inf
