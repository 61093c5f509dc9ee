"""A metric that leaves the trend of its run for the worse is told, with the place where it did; noise is not."""

import math
from pathlib import Path
from random import Random

import numpy as np
import pytest
from scipy.stats import t

from argosy.core.statistics.decisions import Point
from argosy.core.statistics.metric import BITS, Metric, as_records
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.metrics import Kind
from argosy.evidence.compare.trend import change_point, drops, seen_data
from steps.regressions import STEP, RegressionsConfig
from tests.comparison_fixtures import node
from tests.step_fixtures import run_step

TEXT = Kind("lower", "bits a byte", BITS)
NAME = "heldout/bpb/code"


def _points(seed: int, n: int = 17, *, change: int = 99, loss: float = 0.0) -> list[Point]:
    """Bits a byte that fall with the logarithm of tokens, with noise of 0.004; from `change` on they are worse."""
    rng = Random(seed)
    values = [2.5 - 0.1 * math.log(k + 1) + rng.gauss(0, 0.004) + (loss if k >= change else 0.0) for k in range(n)]
    return [Point(1000.0 * (k + 1), value, label=f"p{k}") for k, value in enumerate(values)]


def test_a_loss_is_found_where_it_began() -> None:
    found = [change_point(NAME, TEXT, _points(seed, change=14, loss=0.05)) for seed in range(50)]
    assert sum(drop is not None and drop.p_value < 0.05 for drop in found) >= 45
    assert sum(drop is not None and drop.since == "p13" for drop in found) >= 40
    one = next(drop for drop in found if drop and drop.since == "p13")
    assert (one.tokens, one.seen) == (14000, 3000)
    assert one.value - one.expected == pytest.approx(0.05, abs=0.02)
    over = [*_points(0, change=14, loss=0.05), *_points(0, n=18)[17:]]  # the newest stands where the trend has it
    assert (drop := change_point(NAME, TEXT, over))
    assert drop.p_value == 1.0
    assert change_point(NAME, TEXT, _points(0, n=5)) is None  # too few to know a trend from


SHARE = Kind("higher", "share", 0.02)
SATURATING = {
    "exponential": lambda k: 0.25 + 0.6 * (1 - math.exp(-(k + 1) / 4)),
    "logistic": lambda k: 0.1 + 0.7 / (1 + math.exp(4.5 - 3 * math.log(k + 1))),
    "Hill": lambda k: 0.1 + 0.8 * (k + 1) / (k + 4)}


def _nights(curve: str, noise: float, seed: int, nights: range, *, change: int = 99) -> bool:
    """Whether one of the nights after so many checkpoints raises an alarm. From `change` on, a curve stands 4 standard
    deviations of its noise below where it stood."""
    rng, at = Random(f"{curve}/{noise}/{seed}"), SATURATING[curve]
    values = [(at(k) if k < change else at(change - 1) - 4 * noise) + rng.gauss(0, noise) for k in range(nights.stop)]
    points = [Point(1e9 * (k + 1), value) for k, value in enumerate(values)]
    found = (change_point("probe/a/b/acc", SHARE, points[:n], 0.002) for n in nights)
    return any(drop is not None and drop.p_value < 0.05 for drop in found)


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.05])
def test_twenty_nights_of_a_healthy_line_raise_one_alarm_in_twenty_lines(noise: float) -> None:
    false = [_nights(curve, noise, seed, range(6, 26)) for curve in SATURATING for seed in range(40)]
    assert sum(false) / len(false) <= 0.05


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.05])
def test_a_drop_of_four_times_the_noise_is_found_within_two_nights(noise: float) -> None:
    found = [_nights(curve, noise, seed, range(25, 27), change=24) for curve in SATURATING for seed in range(40)]
    assert sum(found) / len(found) >= 0.9


def test_noise_and_gains_are_no_alarm() -> None:
    false = [change_point(NAME, TEXT, _points(seed)) for seed in range(400)]
    assert sum(drop is not None and drop.p_value < 0.05 for drop in false) / 400 <= 0.05 / 20 + 0.005
    gains = [change_point(NAME, TEXT, _points(seed, change=14, loss=-0.05)) for seed in range(50)]
    assert not any(drop is not None and drop.p_value < 0.05 for drop in gains)


def test_the_p_value_is_that_of_a_fitted_trend() -> None:
    points = _points(3, n=13, change=12, loss=0.05)
    found = change_point(NAME, TEXT, points)
    x, y = np.array([p.tokens for p in points[:12]]), np.array([p.value for p in points[:12]])
    fits = []
    for half in np.geomspace(x[0] / 2, x[-1], 40):
        for exponent in (0.5, 1, 1.5, 2, 3):
            design = np.column_stack([np.ones(12), x**exponent / (x**exponent + half**exponent)])
            (start, gain), rest, *_ = np.linalg.lstsq(design, y, rcond=None)
            if gain < 0:  # of a loss
                fits.append((float(rest[0]), float(start + gain * design[-1, 1]),
                             float(design[-1] @ np.linalg.inv(design.T @ design) @ design[-1])))
    rest, level, leverage = min(fits)
    assert found is not None
    assert found.expected == pytest.approx(level, rel=1e-9)
    one_night = float(t.sf((points[12].value - level) / math.sqrt(rest / 8 * (1 + leverage)), 8))
    assert found.p_value == pytest.approx(20 / 0.34 * one_night, rel=1e-5)


def _checkpoint(number: int, value: float, probe: float) -> Checkpoint:
    metrics = {NAME: value, "probe/probes/json/acc": probe, "bench/facts/plain/acc": 0.0 if number > 6 else 0.9}
    kinds = {NAME: Metric("lower", "bits a byte", BITS), "probe/probes/json/acc": Metric("higher", "share", 0.02)}
    return Checkpoint(f"k/{number}", "k", "pretrain", f"p{number}", number, 1000 * (number + 1), metrics=metrics,
                      counts=dict.fromkeys(metrics, 50), kinds=kinds, label=f"p{number}")


def test_a_share_that_was_constant_is_allowed_an_item() -> None:
    values = [point.value for point in _points(1, n=9)]
    line = [_checkpoint(n, value, 1.0 if n < 8 else 0.98) for n, value in enumerate(values)]
    assert drops(line[:-1], line[-1]) == []
    line[-1].metrics["probe/probes/json/acc"] = 0.7
    assert [drop.metric for drop in drops(line[:-1], line[-1])] == ["probe/probes/json/acc"]


def test_a_night_tells_the_change_point_and_the_data_since(tmp_path: Path) -> None:
    evaluations = []
    for n, point in enumerate(_points(2, n=9, change=7, loss=0.08)):
        about = {"stage": "pretrain", "name": f"p{n}", "step": n, "tokens": int(point.tokens), "chat": False}
        outputs = {"checkpoint": about, "suite": "heldout", "metrics": {NAME: point.value}, "left_out": {},
                   "headline": {}, "kinds": as_records({NAME: Metric("lower", "bits a byte", BITS)})}
        evaluations.append(str(node(tmp_path, "evaluate", "evaluate", {"export": f"p{n}"}, outputs, part=f"p{n}",
                                    upstream={"checkpoint": ["abcdef123456"]})))
    pair = {"new": [8], "earlier": [[n] for n in range(8)], "mixture": {"en": 3, "code": 1, "none": 0}}
    out = tmp_path / "regressions-1"
    found = run_step(STEP, RegressionsConfig.model_validate({"evaluations": evaluations, "pairs": [pair]}), out)
    [judged] = found["judged"]
    assert judged["verdict"] == "worse"
    [text] = judged["regressions"]
    assert text.startswith(f"{NAME} left its trend after pretrain/p6 (abcdef) (7,000 tokens): 2.")
    assert text.endswith("2,000 tokens seen since (pretrain reads en 75 %, code 25 %)")
    assert text in (out / "report.html").read_text()
    assert seen_data("pretrain", {}) == ""
