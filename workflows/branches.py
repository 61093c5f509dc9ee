"""Post-training as a tree: items that each train what an earlier one left, or the base (docs/branches.md)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import ConfigDict, Field

from argosy.config.explain import likely, validated
from argosy.config.schema import Config
from argosy.errors import InputError
from argosy.posttraining.preferences.config import PreferenceMethodConfig
from argosy.posttraining.rl.config import METHODS, RLHFConfig
from argosy.posttraining.sft_config import SFTConfig
from steps.reward_model import RewardModelConfig
from workflows.graph import Node, Stages

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SET_BY_THE_TREE = {
    "checkpoint": "`from` names the item to begin with", "data": "every item reads the data step's files",
    "stage": "an item is called by its name", "tokenized": "pretraining_share mixes the texts of tokenize in",
}  # fmt: skip
STEPS: Mapping[str, type[Config]] = {
    "sft": SFTConfig, "reward_model": RewardModelConfig, "preference": PreferenceMethodConfig, "rlhf": RLHFConfig,
}  # fmt: skip


class Branch(Config):
    """An item of the tree: its place, and beside it the fields of its method's step."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    name: str
    """of its stage, in the report, in `resources` and in overrides (posttraining.NAME.learning_rate=1e-5)"""
    method: str
    """sft, reward_model, a method of preferences (dpo, ipo, ...) or of RL (ppo, grpo, ...)"""
    from_: str = Field("", alias="from")
    """name of the earlier item whose model it trains; empty: the base"""
    reward_model: str = ""
    """name of the earlier item that RL asks for rewards"""

    @property
    def step(self) -> str:
        """Name the step of the method. Raises ValueError: there is no such method."""
        steps = steps_of_methods()
        if self.method not in steps:
            raise ValueError(f"method is {self.method!r}, which is not there; {likely(self.method, steps)}")
        return steps[self.method]

    def config(self) -> Config:
        """Give the step's config. Raises ValueError: a field of it is wrong."""
        fields: dict[str, Any] = dict(self.model_extra or {})
        for name, why in _SET_BY_THE_TREE.items():
            if name in fields:
                raise ValueError(f"{name} is set by the pipeline ({why}): leave it out")
        if self.step in ("preference", "rlhf"):
            fields["method"] = self.method
        try:
            return validated(STEPS[self.step], fields).model_copy(update={"stage": self.name})
        except InputError as error:
            raise ValueError(str(error)) from None


@cache
def steps_of_methods() -> Mapping[str, str]:
    """Map each method to its step."""
    from argosy.posttraining.preferences.methods import method_names

    return {"sft": "sft", "reward_model": "reward_model", **dict.fromkeys(method_names(), "preference"),
            **dict.fromkeys(METHODS, "rlhf")}  # fmt: skip


def check_branches(branches: Sequence[Branch], stages: Sequence[str]) -> None:
    """Check that `branches` are a tree whose names are not among `stages`, and each one's own fields.

    Raises ValueError: they are not; names the item."""
    before: dict[str, Branch] = {}
    for index, branch in enumerate(branches):
        try:
            _check_name(branch.name, before, stages)
            config = branch.config()
            later = [other.name for other in branches[index:]]
            _check_link("from", branch.from_, before, later)
            _check_link("reward_model", branch.reward_model, before, later)
            _check_models(branch, config, before)
        except ValueError as error:
            raise ValueError(f"posttraining[{index}].{error}") from None
        before[branch.name] = branch


def _check_name(name: str, before: Mapping[str, Branch], stages: Sequence[str]) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"name is {name!r}, allowed: a letter, then letters, digits and '_'")
    if name in before:
        raise ValueError(f"name is {name!r}, as an earlier item's: give each a name of its own")
    if name in stages:
        raise ValueError(f"name is {name!r}, which is a stage of the pipeline: choose another, such as {name}_1")


def _check_link(field: str, name: str, before: Mapping[str, Branch], later: Sequence[str]) -> None:
    if name in later:
        raise ValueError(f"{field} is {name!r}, which does not come before it: put {name} first; an item depends on "
                         "earlier ones alone, so that there is no cycle")
    if name and name not in before:
        near = likely(name, before) or "it is the first: leave it out"
        raise ValueError(f"{field} is {name!r}, and no earlier item is called so; {near}")


def _check_models(branch: Branch, config: Config, before: Mapping[str, Branch]) -> None:
    if branch.from_ and before[branch.from_].step == "reward_model" and branch.step != "reward_model":
        raise ValueError(f"from is {branch.from_!r}, a reward model, which writes no answers: begin with the item that "
                         "it was trained from, and name it as reward_model of an RL item")
    rewards = [name for name, other in before.items() if other.step == "reward_model"]
    if branch.reward_model and branch.reward_model not in rewards:
        method, near = before[branch.reward_model].method, likely(branch.reward_model, rewards) or "there is none"
        raise ValueError(f"reward_model is {branch.reward_model!r}, whose method is {method}; {near}")
    asked = isinstance(config, RLHFConfig) and config.asks_model
    if asked and not branch.reward_model:
        raise ValueError("reward_model is missing, and its rewards ask one: name an earlier item of method "
                         f"reward_model ({', '.join(rewards) or 'there is none'}), or set rewards.model=0")
    if branch.reward_model and not asked:
        raise ValueError(f"reward_model is {branch.reward_model!r}, and nothing asks it: leave it out"
                         + (", or give rewards.model a weight" if branch.step == "rlhf" else ""))


def needed_by(branch: Branch) -> Iterator[str]:
    """Yield the names of the items that `branch` depends on."""
    yield from (name for name in (branch.from_, branch.reward_model) if name)


def add_branches(
    stage: Stages, branches: Sequence[Branch], base: Node | None, data: Node | None, tokenize: Node | None
) -> None:
    """Add a node for each item, called by its name."""
    found: dict[str, Node | None] = {"": base}
    for branch in branches:
        config = branch.config()
        inputs: dict[str, Any] = {"reward_model": found[branch.reward_model]} if branch.reward_model else {}
        if isinstance(config, SFTConfig) and config.pretraining_share:
            inputs["tokenized"] = tokenize
        found[branch.name] = stage(branch.name, branch.step, config, data=data, checkpoint=found[branch.from_],
                                   **inputs)  # fmt: skip
