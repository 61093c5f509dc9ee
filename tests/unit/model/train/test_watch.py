"""The watch over training: what it finds, what it does, and the same bytes whoever interrupts it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argosy.core.errors import StepError
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.tokens.mixture import Batch, Mixture
from argosy.evidence.sweep.grid import DIVERGED
from argosy.model.post.rl.learning import Learner
from argosy.model.train import updates
from argosy.model.train.config.watch import WatchConfig
from argosy.model.train.engines.base import Engine
from argosy.model.train.engines.torch import TorchEngine
from argosy.model.train.watch import LOSS, NORM, UPDATE, Watch, course
from steps import pretrain, rlhf
from tests import posttraining_fixtures
from tests.training_fixtures import Recorder, digests, run_here

MODEL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
         "num_key_value_heads": 1, "max_position_embeddings": 64}
STEPS, BAD = 48, 40  # the batch that is planted
FIELDS: dict[str, Any] = {"sequence_length": 32, "global_batch_size": 8, "tokens": STEPS * 256, "log_every": 6,
                          "save_every": 12, "check_every": 0, "learning_rate": 1e-2, "dtype": "float32", "model": MODEL,
                          "heldout_points": 1}
BACK = {"spike": "back", "before": 1, "after": 1}


def noisy(steps: int, seed: int, level: float = 4.0, noise: float = 0.05) -> list[float]:
    """A loss that falls as a power of the step, with noise."""
    drawn = np.random.default_rng(seed).normal(0, noise, steps)
    return [float(level * (1 + step) ** -0.1 + drawn[step]) for step in range(steps)]


def seen(values: list[float], name: str = LOSS, **fields: Any) -> list[tuple[int, str]]:
    watch = Watch(WatchConfig(**fields))
    found = [(step, watch.see(step, {name: (value, 512.0)})) for step, value in enumerate(values, 1)]
    return [(step, trouble.kind) for step, trouble in found if trouble]


def test_a_course_is_the_line_and_the_noise_of_its_values() -> None:
    assert course([3.0 - 0.01 * step for step in range(64)]) == pytest.approx((2.525, 2.36, 0), abs=1e-9)
    values = [1 + 0.01 * step + float(each) for step, each in enumerate(np.random.default_rng(0).normal(0, 0.2, 128))]
    slope, first = np.polyfit(range(128), values, 1)  # least squares
    found = course(values)
    assert found.high == pytest.approx(first + slope * 128, abs=0.1)
    assert found.noise == pytest.approx(0.2, rel=0.2)
    spoiled = [value + 50 * (step % 25 == 3) for step, value in enumerate(values)]
    assert course(spoiled).noise == pytest.approx(0.2, rel=0.3)


def test_each_kind_of_trouble_is_found_within_five_steps_and_none_where_there_is_none() -> None:
    for seed in range(10):
        values = noisy(1000, seed)
        assert seen(values) == []
        assert seen([value**4 for value in values], NORM) == []
        [(step, kind)] = seen([*values[:500], values[500] + 1.0, *values[501:]])
        assert (step, kind) == (501, "spike")
        [(step, kind), *_] = seen([*values[:500], *(value - 0.7 for value in values[500:520]), *values[520:]])
        assert (502 < step <= 505, kind) == (True, "collapse")
        risen = [value + 0.005 * max(0, step - 400) for step, value in enumerate(values)]
        assert seen(risen)[0][1] == "drift"
        assert seen([*values[:30], values[30] + 0.9], early=100) == [(31, "spike")]
        assert seen([*values[:30], values[30] + 0.9], early=0) == []
    assert seen([4.0, float("nan")]) == [(2, "nonfinite")]
    assert seen([*[0.0] * 60, 0.06], "rlhf/reward") == []  # the first answer that is right


def test_a_loss_above_that_of_a_guess_in_five_first_steps_is_wild() -> None:
    for values, found in (([1.24] * 40, []), ([1.3] * 40, [5]), ([1.02, *[9.0] * 39], [6]), ([1.3, 1.3, 1.1] * 13, [])):
        watch = Watch(WatchConfig(), guess=7.0)
        made = [watch.see(step, {LOSS: (7 * value, 512.0)}) for step, value in enumerate(values, 1)]
        assert [(step, each.kind) for step, each in enumerate(made, 1) if each] == [(step, "wild") for step in found]


class Planted:
    """Trouble in batch `bad`: two samples are noise, or (`nan`) its update leaves no weight finite.

    `drawn`: the batches that were read; `again`: batches in whose place the first of them comes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bad, self.nan, self.drawn, self.again = BAD, False, list[int](), range(0)
        read, train_step = Mixture.batch, Engine.train_step

        def batch(mixture: Mixture, positions: range) -> Batch:
            late = 8 * (positions.start // 8 - self.again.start) * (positions.start // 8 in self.again)
            found = read(mixture, range(positions.start - late, positions.stop - late))
            self.drawn += [positions.start // 8] * (len(positions) == 8)
            for row, at in enumerate(positions):
                if at // 8 == self.bad and at % 8 < 2 and not self.nan:
                    found.inputs[row], found.targets[row] = np.random.default_rng(at).integers(3, 300, (2, 32))
            return found

        def step(engine: Engine, given: Batch, rate: float) -> Any:
            found = train_step(engine, given, rate)
            factor = float("nan") if self.nan and self.drawn[-1] == self.bad else 1.0
            for each in engine.module.parameters():
                each.data *= factor
            return found[0] * factor, *found[1:]

        monkeypatch.setattr(Mixture, "batch", batch)
        monkeypatch.setattr(Engine, "train_step", step)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Planted:
    return Planted(monkeypatch)


def train(data: Path, out: Path, tracker: Tracker | None = None, **fields: Any) -> list[dict[str, Any]]:
    run_here(pretrain, out, tracker, **{"tokenized": data, "tokenizer": data, **FIELDS, **fields})
    path = out / "watch.json"
    return json.loads(path.read_text())["decisions"] if path.exists() else []


def test_a_corrupt_batch_is_passed_over_by_whoever_meets_it(data: Path, tmp_path: Path, planted: Planted) -> None:
    [made] = train(data, tmp_path / "whole", watch=BACK)
    assert (made["step"], made["kind"], made["back"], made["passed"]) == (BAD + 1, "spike", 36, [39, 40, 41])
    first, *_, last = made["documents"]
    assert first["sample"] in (8 * BAD, 8 * BAD + 1)
    assert first["loss"] > 1.5 * made["expected"] > 1.2 * last["loss"]
    assert {"channel", "text"} <= made["documents"][0].keys()
    assert planted.drawn == [*range(41), 36, 37, 38, *range(42, STEPS + 3)]
    for at in (30, 42, 48):  # before the trouble, and after it
        out = tmp_path / str(at)
        with pytest.raises(KeyboardInterrupt):
            train(data, out, Recorder(at), watch=BACK)
        assert train(data, out, watch=BACK) == [made]
        assert digests(out) == digests(tmp_path / "whole")
    for saves in ({"save_every": 20}, {"save_every": 10**6, "keep_every": 20}):
        out = tmp_path / f"{saves}"
        assert train(data, out, watch=BACK, **saves)[0]["back"] == 20
        assert digests(out) == digests(tmp_path / "whole")


def test_a_batch_that_comes_again_is_passed_over(data: Path, tmp_path: Path, planted: Planted) -> None:
    planted.bad, planted.again = -1, range(30, 36)
    first, second = train(data, tmp_path, watch={"collapse": "back", "before": 1, "after": 1})
    assert (first["kind"], first["reading"], first["step"], first["passed"]) == (
        "collapse", "train/repeated", 32, [30, 31, 32])
    assert (second["step"], second["passed"]) == (32, [33, 34, 35])


def test_a_rate_that_jumps_is_held_to_its_course(data: Path, tmp_path: Path, planted: Planted,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    planted.bad, rate = -1, updates.learning_rate
    train(data, tmp_path / "calm")
    monkeypatch.setattr(updates, "learning_rate", lambda config, step: rate(config, step) * (
        30 if step in (BAD, BAD + 1) else 1))
    made = train(data, tmp_path / "held", watch={"spike": "back"})
    assert [(each["reading"], each["action"], each["step"], each["rate"][:2]) for each in made] == [
        ("train/lr", "lower", at, [at, at]) for at in (BAD + 1, BAD + 2)]
    assert all(1 / 30 < each["rate"][2] < 1.3 / 30 for each in made)  # the rate of the step before, which falls
    calm, held = (json.loads((tmp_path / name / "outputs.json").read_text())["outputs"]["heldout"]
                  for name in ("calm", "held"))
    assert held["en"]["nats"] == pytest.approx(calm["en"]["nats"], rel=1e-3)


def test_moments_that_are_lost_make_large_updates(data: Path, tmp_path: Path, planted: Planted,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    planted.bad, take = -1, TorchEngine._update

    def forgetful(engine: Any, rate: float) -> Any:
        if planted.drawn[-1] == BAD:
            engine._optimizer.state.clear()
        return take(engine, rate)

    monkeypatch.setattr(TorchEngine, "_update", forgetful)
    [made] = train(data, tmp_path)
    assert (made["kind"], made["reading"], made["since"], made["step"]) == ("spike", UPDATE, BAD + 1, BAD + 3)
    assert "optimizer's state" in made["advice"]


@pytest.mark.parametrize(("rate", "first", "advice"), [(8.0, 2, "lower learning_rate"), (1e-2, 1, "tokenizer")])
def test_training_that_is_wild_from_the_first_steps_stops(data: Path, tmp_path: Path, rate: float, first: int,
                                                          advice: str) -> None:
    """With a rate of 8 the first update spoils the weights; else they are spoilt before."""
    with pytest.raises(StepError, match=rf"step {first + 4}: wild, train/loss is .* where a guess has .*{advice}"):
        train(data, tmp_path, learning_rate=rate, warmup_tokens=0, watch={"wild": "stop"},
              model={**MODEL, "initializer_range": 1.0 if first == 1 else 0.02})
    [made] = json.loads((tmp_path / "watch.json").read_text())["decisions"]
    assert made["since"] == first


def test_what_is_told_changes_nothing(data: Path, tmp_path: Path, planted: Planted) -> None:
    [made] = train(data, tmp_path / "told")
    assert (made["action"], made["back"], made["step"]) == ("tell", None, BAD + 1)
    assert train(data, tmp_path / "deaf", watch={"deviations": 1e6}) == []
    assert digests(tmp_path / "told") == digests(tmp_path / "deaf")


def test_a_rate_is_lowered_for_a_while_and_the_most_returns_are_kept(data: Path, tmp_path: Path,
                                                                     planted: Planted) -> None:
    with pytest.raises(StepError, match=r"step 41: spike.*: the step ends after going back 1 times \(watch\.most\)"):
        train(data, tmp_path, watch={"spike": "lower", "most": 1, "window": 32})
    made = json.loads((tmp_path / "watch.json").read_text())["decisions"]
    assert [(each["action"], each["rate"]) for each in made] == [("lower", [39, 73, 0.1]), ("stop", None)]


def test_a_batch_that_is_not_finite_is_skipped_even_before_the_first_state(data: Path, tmp_path: Path,
                                                                           planted: Planted) -> None:
    planted.nan = True
    [made] = train(data, tmp_path / "late")
    assert (made["kind"], made["value"], made["back"], made["passed"]) == ("nonfinite", "nan", 36, [BAD])
    planted.bad = 5
    with pytest.raises(StepError, match=rf"step 6: .*loss is nan, which {DIVERGED}: there is no state .* batches 5"):
        train(data, tmp_path / "early")
    assert train(data, tmp_path / "early")[0]["back"] is None
    assert (tmp_path / "early/checkpoints/p100").is_dir()


def test_reinforcement_passes_over_the_prompts_of_a_rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    posttraining_fixtures.make_checkpoint(tmp_path / "base")
    posttraining_fixtures.make_data(tmp_path / "data", 96)
    learn, places = Learner.learn, list[int]()

    def poison(self: Learner, experience: Any, number: int) -> dict[str, float]:
        found = learn(self, experience, number)
        places.append(self._rollout.places[0])
        return {**found, "train/grad_norm": float("nan")} if self._rollout.places[0] == 6 else found

    monkeypatch.setattr(Learner, "learn", poison)
    fields = {**posttraining_fixtures.GRPO, "max_steps": 6, "save_every": 2, "staleness": 1}
    run_here(rlhf, tmp_path / "out", checkpoint=tmp_path / "base", data=tmp_path / "data", **fields)
    [made] = json.loads((tmp_path / "out/watch.json").read_text())["decisions"]
    assert (made["kind"], made["step"], made["back"], made["passed"]) == ("nonfinite", 4, 2, [3])
    assert made["documents"][0].keys() == {"reward", "text", "answer"}
    assert places == [0, 2, 4, 6, 4, 8, 10, 12]
