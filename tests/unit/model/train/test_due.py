"""The interval of states that follows from failures and from what saving costs."""

import math

import pytest
import torch

from argosy.model.train import loop
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.watch import WatchConfig
from argosy.model.train.loop import CHEAP, FIRST, LEAST_S, MONTH_S, MOST_S, Due, best_interval
from argosy.model.train.parallelism import Group


def _lost(interval: float, save: float, between: float) -> float:
    """Daly's model (2006, equation 20, restarts aside): expected seconds for each second of work, where failures are
    exponential."""
    return between * math.expm1((interval + save) / between) / interval


@pytest.mark.parametrize(("save", "between"), [(1.0, 1e6), (5.0, 32_400.0), (60.0, 3600.0), (300.0, 3600.0)])
def test_the_interval_loses_the_least(save: float, between: float) -> None:
    """No interval a fiftieth longer or shorter, nor Young's first order, loses less, but for Daly's remainder."""
    best = best_interval(save, between)
    young = math.sqrt(2 * save * between)
    assert best == pytest.approx(young * (1 + math.sqrt(save / 2 / between) / 3 + save / 2 / between / 9) - save)
    for other in (0.8 * best, 1.25 * best, young + save):
        assert _lost(best, save, between) < _lost(other, save, between)
    tried = [between * number / 20_000 for number in range(1, 40_000)]
    optimum = min(tried, key=lambda each: _lost(each, save, between))
    assert _lost(best, save, between) == pytest.approx(_lost(optimum, save, between), rel=1e-5)


def test_saves_that_take_longer_than_failures_leave_are_as_rare_as_those() -> None:
    assert best_interval(10.0, 5.0) == best_interval(100.0, 5.0) == 5.0


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def states(monkeypatch: pytest.MonkeyPatch, step_s: float, save_s: float, steps: int, carried: float = 0.0,
           **fields: object) -> list[int]:
    """The steps after which a run on one node saves, whose steps and saves take so long."""
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    due = Due(TrainConfig.model_validate(fields), Group(device=torch.device("cpu")))
    due.begin(0)
    found, stalled = list[int](), 0.0
    for step in range(1, steps + 1):
        clock.now += step_s + (save_s if found and found[-1] == step - 1 else 0.0)
        stalled = save_s * len(found)
        due.follow(step, stalled, carried)
        if due.at(step):
            due.saves += 1
            found.append(step)
    return found


def test_the_first_state_measures_and_the_next_ones_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(monkeypatch, 1.0, 0.5, 700, failure_rate=MONTH_S / 10_000) == [10, 110, 210, 310, 410, 510, 610]
    assert round(best_interval(0.5, 10_000)) == 100


@pytest.mark.parametrize(("save_s", "rate", "seconds"), [
    (1e-3, 0.08, LEAST_S), (100.0, 1e-6, MOST_S), (0.05, 0.08, 0.05 / CHEAP), (0.5, 1e9, LEAST_S)])
def test_an_interval_has_bounds(monkeypatch: pytest.MonkeyPatch, save_s: float, rate: float, seconds: float) -> None:
    first, second = states(monkeypatch, 0.5, save_s, 5000, failure_rate=rate)[:2]
    assert first == FIRST
    assert second - first == round(seconds / 0.5)


def test_a_store_that_is_written_for_long_is_written_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of 81 s on its way, which training does not feel, comes each 810 s; or as often as failures say."""
    assert states(monkeypatch, 1.0, 0.05, 1700, carried=81.0) == [10, 820, 1630]
    often = states(monkeypatch, 1.0, 0.5, 300, carried=81.0, failure_rate=MONTH_S / 10_000)
    assert often == [10, 110, 210]


def test_slow_steps_leave_the_watch_batches_to_go_back_over(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = WatchConfig(before=15)
    assert states(monkeypatch, 600.0, 1.0, 50, watch=watch) == [16, 32, 48]
    assert states(monkeypatch, 600.0, 1.0, 50, save_every=20) == [20, 40]


def test_states_to_keep_are_due_at_their_multiples_whatever_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(monkeypatch, 1.0, 0.5, 400, failure_rate=MONTH_S / 10_000, keep_every=150) == [
        10, 110, 150, 250, 300, 400]  # the interval of 100 begins anew
    assert states(monkeypatch, 1.0, 0.5, 40, save_every=15, keep_every=10) == [10, 15, 20, 30, 40]


def test_a_multiple_is_due_again_where_training_went_back(monkeypatch: pytest.MonkeyPatch) -> None:
    due = Due(TrainConfig(save_every=10, keep_every=4), Group(device=torch.device("cpu")))
    due.begin(0)
    assert [step for step in (*range(1, 14), *range(4, 9)) if due.at(step)] == [4, 8, 10, 12, 4, 8]
