"""Rewards of answers, and the config that weighs them."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from argosy.core.config.load import load
from argosy.core.errors import InputError
from argosy.corpus.data.rejects import Rejects, read_records
from argosy.model.post.rl.config import RLHFConfig
from argosy.model.post.rl.prompts import prompt_parser
from argosy.model.post.rl.rewards import REWARDS, Prompt, Sample, Surroundings, WeightedRewards, check_model
from tests.posttraining_fixtures import make_tokenizer
from tests.step_fixtures import write_lines

ROOT = Path(__file__).resolve().parents[4]


def sample(text: str, form: str = "text", ended: bool = True) -> Sample:
    accept = ("乙", "乙。") if form == "letter" else ("Paris", "Paris.")
    return Sample(Prompt([], [1], {"accept": accept, "format": form}), [1, 2], text, ended)


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
    rewards = WeightedRewards({"accept": 1.0, "format": 0.5}, Surroundings())
    totals, parts, _ = rewards([sample(text, form)])
    assert parts == {"accept": [right], "format": [in_format]}
    assert totals == [right + 0.5 * in_format]


def test_an_answer_that_was_cut_is_out_of_format_and_has_not_ended() -> None:
    found = WeightedRewards({"ended": 1.0, "format": 1.0}, Surroundings())([sample("Paris", ended=False)])
    assert found.parts == {"ended": [0], "format": [0]}
    assert found.reasons == {"ended": ["cut at the limit"], "format": ["cut at the limit"]}


@pytest.mark.parametrize(("override", "message"), [
    ("rewards.acept=1", r"rewards has 'acept': unknown reward 'acept'; did you mean 'accept'\? \(there are: accept, "),
    ("rewards.maths.tolerance=-1", "rewards.maths.tolerance is -1, allowed: 0 or more"),
    ("rewards.maths.toleranse=1", "rewards.maths.toleranse is not a field; nearest: rewards.maths.tolerance"),
    ("rewards.maths=x", "rewards.maths.weight is 'x', allowed: a number"),
    ("rewards.accept=true", "rewards.accept.weight is true, allowed: a number"),
    ("rewards.regex.pattern='('", r"rewards.regex.pattern is wrong: '\(' is no regular expression: missing \)"),
    ("rewards.json_schema.schema={type: obj}", "rewards.json_schema.schema is wrong: no JSON Schema"),
    ("rewards.length={least: 9, most: 5}", "rewards.length is wrong: least=9 is more than most=5"),
    ("guards.true_reward.length=1", "guards.true_reward.length.most is missing"),
])  # fmt: skip
def test_a_wrong_setting_is_named_with_what_is_allowed(override: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(override)}: {message}"):
        load(RLHFConfig, [], [override])


def test_a_weight_alone_is_a_reward_with_its_defaults() -> None:
    config = load(RLHFConfig, [{"rewards": {"accept": 1, "maths": {"tolerance": 0.5}}}])
    assert config.rewards == {"accept": 1.0, "maths": {"tolerance": 0.5}}
    assert WeightedRewards(config.rewards, Surroundings()).weights == {"accept": 1.0, "maths": 1.0}
    assert not config.asks_model
    assert {"accept", "ended", "format", "model"} <= set(REWARDS)


def test_prompts_without_what_a_reward_checks_are_set_aside_with_line_and_reason(tmp_path: Path) -> None:
    asked = {"prompt": [{"role": "user", "content": "say"}]}
    write_lines(tmp_path / "prompts.jsonl", [
        {**asked, "answer": "B", "pattern": "x"}, {**asked, "pattern": "x"}, {**asked, "answer": "F", "pattern": "x"},
        {**asked, "answer": "A"}, {**asked, "answer": "A", "pattern": "("}])

    def read(**settings: object) -> tuple[int, list[tuple[int, str]]]:
        weighed = WeightedRewards({"multiple_choice": 1, **settings}, Surroundings())  # type: ignore[dict-item]
        rejects = Rejects()
        parse = prompt_parser(make_tokenizer(), 96, weighed.problem)
        found = read_records(tmp_path / "prompts.jsonl", parse, rejects)
        return len(found), [(each.line, each.reason) for each in rejects.rejects]

    lacks = (2, "answer is missing, which the reward multiple_choice checks")
    wrong = (3, "answer, which the reward multiple_choice checks: allowed: one of the letters ABCDE")
    broken = (5, "pattern: no regular expression")
    assert read(regex=1) == (1, [lacks, wrong, (4, "pattern is missing, which the reward regex checks"), broken])
    assert read(regex={"pattern": "y"}) == read(regex={"absent": "zero"}) == (2, [lacks, wrong, broken])
    assert read(multiple_choice={"absent": "zero"}) == (
        2, [(2, "has nothing that its rewards check: answer"), wrong, broken])


def test_the_reward_of_the_docs_is_a_whole_file() -> None:
    page = (ROOT / "docs/posttraining.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    module: dict[str, Any] = {"__name__": "argosy.model.post.rl.rewards.starts"}
    exec(source, module)
    reward = module["Starts"](module["StartsConfig"](case=False), Surroundings())
    samples = [Sample(Prompt([], [1], {"opening": "DEAR"}), [1], text, True) for text in ("Dear you", "You")]
    assert (reward.name, reward(samples)) == ("starts", [(1, ""), (0, "another opening")])
    assert reward.problem({}) == "opening is missing, which the reward starts checks"


def test_a_reward_model_must_be_named_where_it_is_weighed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="reward_model=''"):
        check_model({"model": 1.0}, "")
    check_model({"model": 1.0}, str(tmp_path))
    check_model({"accept": 1.0}, "")


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
        ({"loss": {"clip_high": 0.1}}, "loss.clip_high=0.1 is below loss.clip=0.2"),
        ({"loss": {"scale": "group"}}, "method=ppo has none: choose batch or none"),
        ({"kl_coef": 0, "ppo": {"kl_target": 0.1}}, "raise kl_coef above 0"),
        ({"length": {"soft_tokens": 33}}, "length.soft_tokens=33 is more than max_new_tokens=32"),
        ({"tensor_parallel": 2, "processes": 2}, "tensor_parallel=2 is not for this step"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RLHFConfig.model_validate(values)
