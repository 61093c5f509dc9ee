"""A sweep: its grid, the best learning rate and its power law on losses that a known law makes, and its advice."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from argosy.core.errors import InputError
from argosy.evidence.report.sweep import page, record, table
from argosy.evidence.sweep.advice import Study, study
from argosy.evidence.sweep.fit import Curve, Noise, fit_law, fit_optimum, seed_noise, vertex
from argosy.evidence.sweep.grid import Axis, read_grid
from argosy.evidence.sweep.points import Point, Runs
from tests.html_tags import check_self_contained
from workflows.lifecycle import LifecycleConfig
from workflows.sweep import read_sweep


def test_fields_with_several_values_are_axes_and_all_others_are_as_in_a_run() -> None:
    grid = read_grid(LifecycleConfig, ["pretrain.learning_rate=1e-3, 3e-3", "data.inputs=a,b", "pretrain.tokens=2048",
                                       "pretrain.model=[{hidden_size: 64}, {hidden_size: 128}]"], seeds=2, first_seed=7)
    assert grid.fixed == ("data.inputs=a,b", "pretrain.tokens=2048")
    assert grid.axes[0] == Axis("pretrain.learning_rate", ("1e-3", "3e-3"))
    assert grid.axes[1].values == ('{"hidden_size": 64}', '{"hidden_size": 128}')
    assert len(grid) == len(list(grid.points())) == 8
    assert next(grid.points())[-1] == "pretrain.seed=7"


@pytest.mark.parametrize(("overrides", "seeds", "said"), [
    (["pretrain.learning_rate=1e-3,3e-3", "pretrain.weigth_decay=0,1"], 0, r"nearest: pretrain\.weight_decay"),
    (["pretrain.learning_rate=1e-3,fast"], 0, r"learning_rate=fast: pretrain\.learning_rate is \"?'?fast.*a number"),
    (["pretrain.learning_rate=1e-3,-1"], 0, r"pretrain\.learning_rate is -1, allowed: a number above 0"),
    (["pretrain.learning_rate=1e-3,,3e-3"], 0, "has an empty value, allowed: one value, or several with commas"),
    (["pretrain.learning_rate=[]"], 0, "has an empty value"),
    (["pretrain.learning_rate=1e-3,0.001"], 0, "has 1e-3 and 0.001, which are the same, twice"),
    (["pretrain.learning_rate=1e-3,3e-3", "pretrain.learning_rate=1e-2"], 0, "is given more than once"),
    (["pretrain.seed=1,2"], 3, "--seeds 3 and pretrain.seed=1,2 both set the seeds"),
    (["sft.learning_rate=1e-3,3e-3"], 0, "a sweep varies fields of pretrain alone"),
    (["pretrain.log_every=1,2"], 0, "changes no result"),
    (["pretrain.learning_rate=1e-3"], 0, "a sweep varies something"),
    (["pretrain.seed=" + ",".join(map(str, range(101))), "pretrain.weight_decay=0,1"], 0,
     r"has 202 points \(101 of pretrain.seed x 2 of pretrain.weight_decay\), allowed: 200")])  # fmt: skip
def test_what_cannot_be_swept_is_refused_with_the_field_the_value_and_what_is_allowed(overrides: list[str], seeds: int,
                                                                                      said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_sweep("tiny", None, overrides, seeds)


EXPONENT, AT_A_MILLION = -0.35, 3e-3  # the law that the losses are made by
SIZES = (1e6, 4e6, 16e6)
RATES = tuple(3e-4 * 2.0**step for step in range(8))


def best_rate(parameters: float) -> float:
    return AT_A_MILLION * (parameters / 1e6) ** EXPONENT


def curve(parameters: float, runs: np.ndarray) -> Curve:
    return Curve(parameters, RATES, tuple(runs.mean(axis=0)), (len(runs),) * len(RATES))


def losses(parameters: float, rng: np.random.Generator, sd: float, seeds: int) -> np.ndarray:
    """[seed, learning rate]: a parabola over the logarithm around the law's rate, with noise."""
    exact = 2.5 + 0.08 * np.log(np.array(RATES) / best_rate(parameters)) ** 2
    return exact + sd * rng.standard_normal((seeds, len(RATES)))


def test_a_vertex_is_that_of_a_polynomial_fitted_by_numpy() -> None:
    runs = losses(1e6, np.random.default_rng(1), 0.01, 2)
    found = curve(1e6, runs)
    around = slice(found.best - 2, found.best + 3)
    square, linear, _ = np.polyfit(np.log(RATES[around]), runs.mean(axis=0)[around], 2)
    assert vertex(found) == pytest.approx(np.exp(-linear / (2 * square)))


def test_without_noise_the_law_is_found_exactly() -> None:
    curves = [curve(size, losses(size, np.random.default_rng(0), 0.0, 1)) for size in SIZES]
    law = fit_law(curves, [Noise(1e-9, 10)] * len(SIZES))
    assert law.exponent.value == pytest.approx(EXPONENT, abs=1e-6)
    assert law.at(1e9).value == pytest.approx(best_rate(1e9), rel=1e-5)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    held, trials = np.zeros(3), 100
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        runs = {size: losses(size, rng, 0.01, 3) for size in SIZES}
        curves = [curve(size, each) for size, each in runs.items()]
        noises = [seed_noise(each.T.tolist()) for each in runs.values()]
        law, one = fit_law(curves, noises, draws=300), fit_optimum(curves[0], noises[0], draws=300)
        far, truth = law.at(1e9), best_rate(1e9)
        held += (law.exponent.low <= EXPONENT <= law.exponent.high, far.low <= truth <= far.high,
                 one.low <= best_rate(1e6) <= one.high)
    assert (held / trials > 0.88).all()
    assert (held / trials < 1).all()  # nor are they so wide that they say nothing


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
    found = study(Runs([*points()], [RATE, WIDTH, "pretrain.seed"]), 1e8)
    assert found.take[RATE] == pytest.approx(best_rate(1e8), rel=0.25)
    assert "take pretrain.learning_rate=" in said(found, "best")
    assert said(found, "worse") == ""
    html = page(found, "demo-sweep")
    assert {"verdict", "charts", "settings", "channels"} <= check_self_contained(html)
    assert html.count('class="error c0"') > len(RATES)  # those of the first size, and of its optimum
    assert table(record(found)).splitlines()[0].split()[:4] == ["SIZE", "PARAMETERS", "SETTING", "LOSS"]


def test_an_edge_too_few_points_and_noise_are_said_and_nothing_is_taken() -> None:
    edge = study(Runs([*points(SIZES[:1], RATES[:3])], [RATE]))
    assert "is at the grid's edge, the highest that was tried: widen the range, such as with 0.0024" in said(
        edge, "worse")
    assert edge.take == {}
    few = study(Runs([*points(SIZES[:1], RATES[2:4])], [RATE]))
    assert "a parabola needs 3: too few points" in said(few, "worse")
    single = study(Runs([*points(SIZES[:1], RATES[2:5], seeds=1, sd=0.0)], [RATE]))
    assert "add --seeds 3" in said(single, "worse")
    wide = study(Runs([*points(SIZES[:2], sd=0.08)], [RATE, WIDTH]), 1e12)
    assert "too wide to choose by" in said(wide, "worse")
    assert wide.take == {}


def test_one_size_gives_its_own_learning_rate() -> None:
    found = study(Runs([*points(SIZES[:1])], [RATE]))
    assert found.take[RATE] == pytest.approx(best_rate(1e6), rel=0.15)
    assert "for a larger model sweep three sizes" in said(found, "best")


def test_a_difference_that_noise_explains_is_said_so_and_one_that_it_does_not_is_too() -> None:
    found = study(Runs([*points(SIZES[:1], decays=(0.1, 0.01))], [RATE, DECAY]))
    verdicts = {(each.cell.settings[0][1], each.cell.settings[1][1]): each.verdict for each in found.ranked[""]}
    best = found.ranked[""][0].cell
    other = 0.01 if best.settings[1][1] == 0.1 else 0.1
    assert verdicts[best.settings[0][1], other] == "noise"
    assert "noise explains it" in table(record(found))
    assert verdicts[RATES[0], 0.1] == verdicts[RATES[-1], 0.01] == "worse"
    assert "weight_decay: the best value" not in said(found)  # at the grid's edge, but no better than the other
