"""What a sweep says to whoever trains the large model, and what it will not say."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from argosy.core.errors import InputError
from argosy.evidence.report.sweep import page, record, table
from argosy.evidence.sweep.advice import Study, Target, study
from argosy.evidence.sweep.points import Point, Runs, check_channel
from tests.html_tags import check_self_contained
from tests.unit.evidence.sweep.test_fit import RATES, SIZES, best_rate

RATE, WIDTH, DECAY = "pretrain.learning_rate", "pretrain.model.hidden_size", "pretrain.weight_decay"


def points(sizes: Sequence[float] = SIZES, rates: Sequence[float] = RATES, *, seeds: int = 3, sd: float = 0.003,
           optimizer: str = "adamw", decays: Sequence[float] = (0.1,)) -> Iterable[Point]:
    """Runs by a known law; weight decay changes nothing."""
    rng = np.random.default_rng(3)
    for size, rate, decay, seed in ((s, r, d, n) for s in sizes for r in rates for d in decays for n in range(seeds)):
        loss = 2.5 + 0.08 * math.log(rate / best_rate(size)) ** 2 + sd * rng.standard_normal()
        config = {"learning_rate": rate, "seed": seed, "tokens": 20 * size, "optimizer": optimizer,
                  "weight_decay": decay, "model": {"hidden_size": round(size**0.5 / 4)}}
        yield Point(f"{size}-{rate}-{decay}-{seed}", config, {"en": loss, "code": loss}, int(size), int(2 * size))


def said(found: Study, kind: str = "") -> str:
    return "\n".join(each.text for each in found.sentences if kind in ("", each.kind))


def test_the_law_gives_the_large_model_its_learning_rate() -> None:
    found = study(Runs([*points()], [RATE, WIDTH, "pretrain.seed"]), Target(parameters=1e8))
    assert found.take[RATE] == pytest.approx(best_rate(1e8), rel=0.25)
    assert "take pretrain.learning_rate=" in said(found, "best")
    assert said(found, "worse") == ""
    html = page(found, "demo-sweep")
    assert {"verdict", "charts", "settings", "channels"} <= check_self_contained(html)
    assert html.count('class="error c0"') > len(RATES)  # those of the first size, and of its optimum
    assert table(record(found)).splitlines()[0].split()[:4] == ["SIZE", "PARAMETERS", "SETTING", "LOSS"]


def test_an_edge_too_few_points_and_noise_are_said_and_nothing_is_taken() -> None:
    edge = study(Runs([*points(SIZES[:1], RATES[:3])], [RATE]), Target(width=1000))
    assert "is at the grid's edge, the highest that was tried: widen the range, such as with 0.0024" in said(
        edge, "worse")
    assert edge.take == {}
    few = study(Runs([*points(SIZES[:1], RATES[2:4])], [RATE]), Target())
    assert "a parabola needs 3: too few points" in said(few, "worse")
    single = study(Runs([*points(SIZES[:1], RATES[2:5], seeds=1, sd=0.0)], [RATE]), Target())
    assert "add --seeds 3" in said(single, "worse")
    wide = study(Runs([*points(SIZES[:2], sd=0.08)], [RATE, WIDTH]), Target(parameters=1e12))
    assert "too wide to choose by" in said(wide, "worse")
    assert wide.take == {}


def test_one_size_scales_by_width_under_adam_alone() -> None:
    found = study(Runs([*points(SIZES[:1])], [RATE]), Target(width=1000))
    assert found.take[RATE] == pytest.approx(best_rate(1e6) * 250 / 1000, rel=0.15)
    assert "Yang et al. 2022" in said(found, "best")
    muon = study(Runs([*points(SIZES[:1], optimizer="muon")], [RATE]), Target(width=1000))
    assert muon.take == {}
    assert "The rule 1 / width is Adam's, and pretrain.optimizer is muon" in said(muon, "worse")


def test_a_difference_that_noise_explains_is_said_so_and_one_that_it_does_not_is_too() -> None:
    found = study(Runs([*points(SIZES[:1], decays=(0.1, 0.01))], [RATE, DECAY]), Target())
    verdicts = {(each.cell.settings[0][1], each.cell.settings[1][1]): each.verdict for each in found.ranked[""]}
    best = found.ranked[""][0].cell
    other = 0.01 if best.settings[1][1] == 0.1 else 0.1
    assert verdicts[best.settings[0][1], other] == "noise"
    assert "noise explains it" in table(record(found))
    assert verdicts[RATES[0], 0.1] == verdicts[RATES[-1], 0.01] == "worse"
    assert "weight_decay: the best value" not in said(found)  # at the grid's edge, but no better than the other


def test_points_that_diverged_are_counted_and_are_no_edge() -> None:
    runs = [each if each.config["learning_rate"] < RATES[5] else Point(each.name, each.config, {})
            for each in points(SIZES[:1])]
    found = study(Runs(runs, [RATE]), Target())
    assert "9 of 24 points diverged" in said(found)
    assert record(found)["settings"][-1]["verdict"] == "diverged"
    assert found.take[RATE] == pytest.approx(best_rate(1e6), rel=0.15)
    with pytest.raises(InputError, match="channel is 'cod', allowed: all, code, en; nearest: code"):
        check_channel(runs, "cod")
