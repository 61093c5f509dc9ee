"""Rewards of answers, and the config that weighs them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from argosy.errors import InputError
from argosy.posttraining.rl.config import RLHFConfig
from argosy.posttraining.rl.rewards import Prompt, RewardSettings, Sample, WeightedRewards, check_settings, reward_names


def sample(text: str, form: str = "text", ended: bool = True) -> Sample:
    accept = ("乙", "乙。") if form == "letter" else ("Paris", "Paris.")
    return Sample(Prompt([], [1], accept, form), [1, 2], text, ended)


@pytest.mark.parametrize(
    ("text", "form", "right", "in_format"),
    [
        ("Paris.", "text", 1, 1),
        ("It is Paris", "text", 0, 1),
        ("Paris\nParis", "text", 0, 0),
        ("", "text", 0, 0),
        ('{"answer": "Paris"}', "json", 1, 1),
        ('{"answer": "Rome"}', "json", 0, 1),
        ('{"answer": ["Paris"]}', "json", 0, 0),
        ('{"reply": "Paris"}', "json", 0, 0),
        ("Paris", "json", 0, 0),
        ("[1]", "json", 0, 0),
        ("乙", "letter", 1, 1),  # whatever the alphabet
        ("甲", "letter", 0, 1),
        ("乙是对的", "letter", 0, 0),
    ],
)
def test_checkable_rewards(text: str, form: str, right: float, in_format: float) -> None:
    rewards = WeightedRewards({"accept": 1.0, "format": 0.5}, RewardSettings())
    totals, parts = rewards([sample(text, form)])
    assert parts == {"accept": [right], "format": [in_format]}
    assert totals == [right + 0.5 * in_format]


def test_an_answer_that_was_cut_is_out_of_format_and_has_not_ended() -> None:
    rewards = WeightedRewards({"ended": 1.0, "format": 1.0}, RewardSettings())
    assert rewards([sample("Paris", ended=False)])[1] == {"ended": [0], "format": [0]}


def test_an_unknown_reward_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValidationError, match=r"unknown names \['acept'\]; allowed: accept, ended, format, model"):
        RLHFConfig(rewards={"acept": 1.0})
    assert reward_names() == ["accept", "ended", "format", "model"]


def test_a_reward_model_must_be_named_where_it_is_weighed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="reward_model=''"):
        check_settings({"model": 1.0}, RewardSettings())
    check_settings({"model": 1.0}, RewardSettings(str(tmp_path)))
    check_settings({"accept": 1.0}, RewardSettings())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 24, "micro_batch_size": 16}, "micro_batch_size=16 does not divide batch_size=24"),
        ({"method": "grpo", "batch_size": 12, "micro_batch_size": 12}, "not a multiple of group.size=8"),
        ({"processes": 3}, "processes=3 does not divide batch_size=64"),
        ({"method": "grpo", "processes": 16, "group": {"size": 8}}, "processes=16 is not a multiple of group.size=8"),
        ({"processes": 64, "minibatches": 2}, "minibatches=2 does not divide batch_size=64 / processes=64"),
        ({"save_every": 7, "log_every": 5}, "save_every=7 is not a multiple of log_every=5"),
        ({"minibatches": 7}, "minibatches=7 does not divide"),
        ({"method": "gpro"}, "method='gpro' is not there; nearest: grpo"),
        ({"dynamic_sampling": 2}, "method=ppo has one answer to each"),
        ({"loss": {"scale": "group"}}, "method=ppo has none: choose batch or none"),
        ({"kl_coef": 0, "ppo": {"kl_target": 0.1}}, "raise kl_coef above 0"),
        ({"length": {"soft_tokens": 33}}, "length.soft_tokens=33 is more than max_new_tokens=32"),
        ({"tensor_parallel": 2, "processes": 2}, "tensor_parallel=2 is not for this step"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RLHFConfig.model_validate(values)
