"""SFT, reward model, DPO and RLHF on a tiny model: that they learn, what they learn from, and what they export."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import steps.preference
import steps.reward_model
import steps.rlhf
import steps.sft
from argosy.core.errors import InputError, StepError
from argosy.core.store.files import remove_temporaries
from argosy.model.post.rl.networks import Networks
from argosy.model.post.rl.rollout import Collector
from argosy.model.post.stage import Stage, check_heldout
from argosy.model.train.engines.torch import TorchEngine
from tests.posttraining_fixtures import make_checkpoint, make_data
from tests.training_fixtures import Devices, Recorder, digests, dying, run_here


def run(module: Any, out: Path, **values: Any) -> tuple[dict[str, Any], Recorder]:
    log = Recorder()
    return run_here(module, out, log, **{"dtype": "float32", **values}).model_dump(mode="json"), log


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("posttraining")
    make_checkpoint(root / "base")
    make_data(root / "data", 256)
    return root


@pytest.fixture(scope="module")
def sft(root: Path) -> tuple[dict[str, Any], Recorder]:
    return run(steps.sft, root / "sft", checkpoint=root / "base", data=root / "data", epochs=24, learning_rate=4e-3,
               max_new_tokens=12)


@pytest.fixture(scope="module")
def reward_model(root: Path, sft: Any) -> tuple[dict[str, Any], Recorder]:
    return run(steps.reward_model, root / "rm", checkpoint=root / "sft", data=root / "data", epochs=8, heads=2,
               centering=0.01)


@pytest.fixture(scope="module")
def early_sft(root: Path) -> Path:
    """An SFT that has not learnt to stop yet, so that there is much to gain."""
    run(steps.sft, root / "early", checkpoint=root / "base", data=root / "data", epochs=5, learning_rate=2e-3)
    return root / "early"


def test_sft_learns_to_answer(sft: Any) -> None:
    metrics = sft[0]["metrics"]
    assert metrics["heldout/instruction_loss/after"] < 0.5 * metrics["heldout/instruction_loss/before"]
    assert metrics["heldout/exact_match/before"] == 0
    assert metrics["heldout/exact_match/after"] > 0.5


def test_export_loads_generates_and_names_no_path(root: Path, sft: Any) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = root / "sft" / sft[0]["final"]
    model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "say cat twice"}], add_generation_prompt=True,
                                           return_tensors="pt")
    answer = model.generate(**prompt, max_new_tokens=16, do_sample=False)[0, prompt["input_ids"].size(1) :]
    assert tokenizer.decode(answer).endswith("<|end|>")  # it stops by itself
    record = json.loads((path / "argosy.json").read_text())
    assert record["stage"] == "sft"
    assert record["chat"] is True
    assert record["tokens"] == sft[0]["exports"][0]["tokens"] > 1000
    for file in path.iterdir():
        assert str(root).encode() not in file.read_bytes(), file.name
    assert not list(path.glob("*.bin"))


@pytest.mark.parametrize(("method", "fields"), [("ppo", {}), ("grpo", {"staleness": 1, "dynamic_sampling": 1})])
def test_rl_killed_while_it_samples_trains_and_saves_ends_with_the_same_bytes(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, fields: dict[str, Any]) -> None:
    fields |= {"checkpoint": root / "base", "data": root / "data", "method": method, "group": {"size": 4}, "passes": 2,
               "max_steps": 7, "save_every": 2, "log_every": 2, "batch_size": 8, "micro_batch_size": 4,
               "dtype": "float32", "heldout_limit": 4, "max_new_tokens": 4,
               "rewards": {"language": {"language": "en"}}}
    whole, log = Recorder(), Recorder()
    expected = run_here(steps.rlhf, tmp_path / "whole", whole, **fields)
    assert len({value for (name, _), value in whole.logged.items() if name == "rlhf/reward"}) > 1  # it tells runs apart
    generator = random.Random(3)
    for part, name in ((Collector, "collect"), (TorchEngine, "update"), (Networks, "save"), (Collector, "collect")):
        with monkeypatch.context() as patch:
            patch.setattr(part, name, dying(getattr(part, name), generator.randint(1, 2)))
            with pytest.raises(KeyboardInterrupt):
                run_here(steps.rlhf, tmp_path / "cut", log, **fields)
        remove_temporaries(tmp_path / "cut")
    assert run_here(steps.rlhf, tmp_path / "cut", log, **fields) == expected
    assert digests(tmp_path / "cut") == digests(tmp_path / "whole")
    assert log.logged == whole.logged


@pytest.mark.parametrize("method", ["ppo", "grpo", "reinforce++"])
def test_rlhf_raises_the_reward_and_reports_its_kl(root: Path, early_sft: Path, reward_model: Any, method: str) -> None:
    outputs, log = run(steps.rlhf, root / method, checkpoint=early_sft, reward_model=root / "rm", data=root / "data",
                       method=method, rewards={"model": 0.1, "ended": 1.0, "format": 1.0}, max_steps=15, save_every=15,
                       log_every=15, batch_size=64, micro_batch_size=32, max_new_tokens=12, learning_rate=1e-3,
                       kl_coef=0.01)
    metrics = outputs["metrics"]
    assert metrics["heldout/reward/sampled/after"] > metrics["heldout/reward/sampled/before"] + 0.2
    assert metrics["heldout/kl/before"] == pytest.approx(0, abs=1e-6)
    assert metrics["heldout/kl/after"] > 0.01
    assert log.logged["rlhf/kl", 15] > 0
    by_channel = {f"rlhf/{name}_by_channel/{channel}" for name in ("reward", "length", "kl")
                  for channel in ("polite", "curt")}
    assert {"rlhf/reward", "rlhf/reward/ended", "rlhf/reward/model"} | by_channel <= {name for name, _ in log.logged}
    low, high = sorted(metrics[f"heldout/reward_by_channel/{channel}/after"] for channel in ("polite", "curt"))
    assert low < metrics["heldout/reward/sampled/after"] < high


@pytest.mark.parametrize(("name", "models", "values"), [
    ("sft", 1, {}),
    ("preference", 1, {}),  # the policy, which is its own reference before it learns
    ("reward_model", 1, {}),
    ("rlhf", 5, {"method": "ppo", "rewards": {"model": 1.0}, "max_new_tokens": 4})])
def test_every_model_is_on_the_steps_device(root: Path, reward_model: Any, tmp_path: Path, name: str, models: int,
                                            values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """PPO's are policy, reference, value and reward model, and the start again for the held-out divergence."""
    devices = Devices(monkeypatch)
    run(getattr(steps, name), tmp_path, checkpoint=root / "base", data=root / "data", max_steps=1, batch_size=8,
        micro_batch_size=8, heldout_limit=4, **(values | ({"reward_model": root / "rm"} if name == "rlhf" else {})))
    assert devices.elsewhere() == []
    assert sum(type(model).__name__.startswith("LlamaFor") for model in devices.made) == models


@pytest.mark.parametrize(("name", "log_every", "values"), [
    ("sft", 1, {}), ("rlhf", 100, {"method": "ppo", "rewards": {"accept": 1.0}, "max_new_tokens": 6})])
def test_a_step_that_diverges_fails_and_exports_nothing(root: Path, tmp_path: Path, name: str, log_every: int,
                                                        values: dict[str, Any]) -> None:
    with pytest.raises(StepError, match=r"step [1-6].*is not a finite number.*lower learning_rate"):
        run(getattr(steps, name), tmp_path, checkpoint=root / "base", data=root / "data", learning_rate=1e30,
            warmup_ratio=0.0, max_steps=6, batch_size=8, micro_batch_size=8, heldout_limit=4, log_every=log_every,
            save_every=100, **values)
    assert not (tmp_path / "checkpoints").exists()


def test_heldout_results_that_are_no_numbers_are_named() -> None:
    with pytest.raises(StepError, match=r"step 7, heldout/loss=nan is not a finite number"):
        check_heldout({"heldout/loss": 1.0}, {"heldout/loss": float("nan")}, 7)
    with pytest.raises(StepError, match=r"before training, heldout/loss is inf: the checkpoint"):
        check_heldout({"heldout/loss": float("inf")}, {}, 7)


@pytest.mark.parametrize(("name", "by", "fields"), [
    ("sft", "heldout/instruction_loss", {"learning_rate": 0.1, "max_steps": 8, "max_new_tokens": 4}),
    ("preference", "heldout/preference_accuracy", {"learning_rate": 0.05, "max_steps": 16}),
    ("reward_model", "heldout/preference_brier", {"learning_rate": 0.1, "max_steps": 16}),
])
def test_the_best_point_is_the_final_export_whatever_kills_come(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, by: str, fields: dict[str, Any]) -> None:
    fields |= {"checkpoint": root / "base", "data": root / "data", "dtype": "float32", "save_every": 3, "log_every": 1,
               "heldout_points": fields["max_steps"] // 2, "final_by": by, "warmup_ratio": 0.95,
               "schedule": "constant", "batch_size": 8, "micro_batch_size": 8}  # the rate rises until it is too high
    module, whole = getattr(steps, name), Recorder()
    outputs = run_here(module, tmp_path / "whole", whole, **fields)
    measured = {step: value for (metric, step), value in whole.logged.items() if metric == by and step}
    assert list(measured) == list(range(2, fields["max_steps"] + 1, 2))
    best = min(measured, key=lambda step: -measured[step] if by.endswith("accuracy") else measured[step])
    assert 2 < best < fields["max_steps"]
    assert (outputs.exports[0].step, outputs.metrics[f"{by}/after"]) == (best, measured[best])
    assert [path.name for path in (tmp_path / "whole/checkpoints").iterdir()] == ["best"]
    assert whole.models == {"final": (best, outputs.exports[0].tokens)}
    for calls in (best // 2, 2):  # just after the best export, before a state is saved, and after a later point
        with monkeypatch.context() as patch:
            patch.setattr(Stage, "measure", dying(Stage.measure, calls))
            with pytest.raises(KeyboardInterrupt):
                run_here(module, tmp_path / "cut", **fields)
    assert run_here(module, tmp_path / "cut", **fields) == outputs
    assert digests(tmp_path / "cut") == digests(tmp_path / "whole")


def test_a_channel_that_is_not_measured_is_refused_before_training(root: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"final_by is '.*/no', .*allowed: heldout/instruction_loss"):
        run(steps.sft, tmp_path, checkpoint=root / "base", data=root / "data", max_steps=2, heldout_points=2,
            final_by="heldout/instruction_loss/no", heldout_limit=4)
    assert not (tmp_path / "checkpoints").exists()
