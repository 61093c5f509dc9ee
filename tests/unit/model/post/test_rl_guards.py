"""Guards of reinforcement learning, the table of samples, and prompts that are sampled again."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import steps.rlhf
from argosy.core.errors import StepError
from argosy.model.infer.decode import Decoding
from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.prompts import Guards, Stream
from argosy.model.post.rl.rewards import Prompt
from argosy.model.post.rl.rollout import Collector
from argosy.model.train.parallelism import Group
from tests.posttraining_fixtures import make_data
from tests.training_fixtures import Recorder, run_here

MEANS = {"rlhf/length": 10.0, "rlhf/kl_k1": 0.5, "rlhf/kl_answer": 5.0}


def guards(**fields: Any) -> Guards:
    return Guards(RLHFConfig.model_validate({"guards": fields}))


@pytest.mark.parametrize(("fields", "values", "said"), [
    ({"kl_token": 0.4}, {}, "before step 3, guards.kl_token=0.4: the divergence is 0.5 nats a token; lower learning"),
    ({"kl_answer": 4}, {}, "guards.kl_answer=4.0: the divergence is 5 nats an answer"),
    ({"length_factor": 2}, {"rlhf/length": 21.0}, "answers have 21 tokens, at first 10"),
    ({"length_factor": 2}, {"rlhf/length": 4.0}, "answers have 4 tokens, at first 10"),
    ({"repetition": 0.3}, {}, "50% of the runs of 4 tokens are repetitions")])
def test_a_limit_that_is_passed_stops_the_run(fields: dict[str, Any], values: dict[str, float], said: str) -> None:
    watching = guards(**fields)
    watching.check(0, {**MEANS, "rlhf/kl_k1": 0.1, "rlhf/kl_answer": 1.0}, [[1, 2, 3, 4]])
    with pytest.raises(StepError, match=said):
        watching.check(2, MEANS | values, [[7] * 5, [1, 2, 3, 4, 5]] if "repetition" not in fields else [[7] * 5])


def test_a_guard_may_halve_the_rate_instead() -> None:
    watching = guards(kl_token=0.4, action="lower")
    for _ in range(2):
        found = watching.check(1, MEANS, [[1]])
    assert found["guards/rate"] == watching.rate == 0.25
    assert guards().check(1, MEANS, [[1]]) == {"rlhf/repetition": 0.0}  # without limits


def test_a_reward_that_is_hacked_is_caught(root: Path, tmp_path: Path) -> None:
    """What is trained pays for answers that end; the true one, held out, for those that go on."""
    make_data(tmp_path / "data", 128)
    fields: dict[str, Any] = {
        "checkpoint": root / "base", "data": tmp_path / "data", "method": "grpo", "rewards": {"ended": 1.0},
        "kl_coef": 0, "learning_rate": 3e-3, "batch_size": 64, "max_steps": 40, "max_new_tokens": 16,
        "heldout_limit": 16, "guards": {"true_reward": {"ended": -1.0}, "true_every": 3}, "log_every": 1,
        "save_every": 50}
    log = Recorder()
    with pytest.raises(StepError, match=r"guards.true_reward=.*the trained reward has risen by .*ended: -1, fell by"):
        run_here(steps.rlhf, tmp_path, log, **fields)
    assert not (tmp_path / "checkpoints").exists()
    assert log.logged["guards/true_reward", 1] > -0.5
    table = json.loads((tmp_path / "samples.json").read_text())
    assert table["columns"][:5] == ["step", "end", "prompt", "answer", "reward"]
    assert [row[1] for row in table["data"][:4]] == ["best", "best", "worst", "worst"]
    assert all(row[4] == float(row[-1]) for row in table["data"])  # rewards beside whether it ended
    reasons = table["columns"].index("reasons")
    assert {(row[-1], row[reasons]) for row in table["data"]} == {(True, ""), (False, "ended: cut at the limit")}


def _collector(times: int, firsts: Sequence[int]) -> Collector:
    """Answers begin with the prompt's first token; rewards are alike for even ones."""
    config = RLHFConfig.model_validate({"method": "grpo", "group": {"size": 2}, "batch_size": 8, "micro_batch_size": 8,
                                        "dynamic_sampling": times, "rewards": {"ended": 1.0}})
    prompts = [Prompt([], [first]) for first in firsts]

    def rewards(samples: Sequence[Any]) -> Any:
        scores = [float(number % 2) if sample.prompt.ids[0] % 2 else 1.0 for number, sample in enumerate(samples)]
        return scores, {"r": scores}, {}

    def sampler(prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]], _: Any) -> Any:
        answers = [[prompt[0], seed % 7] for prompt, of in zip(prompts, seeds, strict=True) for seed in of]
        return answers, [[0.0, 0.0] for _ in answers]

    tokenizer = SimpleNamespace(batch_decode=lambda answers, **_: [""] * len(answers))
    source = SimpleNamespace(stop_ids=(0,), decoding=lambda *_: Decoding([0], 0, 2), tokenizer=tokenizer)
    parts: tuple[Any, Any, Any] = sampler, rewards, source
    return Collector(parts[0], Stream(prompts, 0), parts[1], config, parts[2], Group())


def test_prompts_that_are_always_right_are_replaced_and_bounded() -> None:
    collector = _collector(3, range(16))
    made = collector.collect()
    assert all(collector.stream.at(place).ids[0] % 2 for place in made.places)
    assert len(made.scores) == 8
    seen = [collector.stream.at(place).ids[0] for place in range(collector.stream.next)]
    assert made.resampled <= sum(first % 2 == 0 for first in seen)
    none = _collector(2, [0, 2, 4, 6])  # nothing to learn from: the prompts stay
    assert len(none.collect().scores) == 8
    assert none.stream.next == 3 * 4


def test_each_prompt_comes_once_before_one_comes_twice() -> None:
    stream = Stream([Prompt([], [number]) for number in range(7)], seed=3)
    order = [stream.at(place).ids[0] for place in range(21)]
    assert all(sorted(order[at : at + 7]) == list(range(7)) for at in (0, 7, 14))
    assert order[:7] != order[7:14]
