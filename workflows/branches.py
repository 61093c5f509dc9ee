"""Post-training as a tree: items that each train what an earlier one left, or the base (docs/posttraining.md)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import ConfigDict, Field

from argosy.core.config.explain import likely, validated
from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.corpus.data.split import PROMPTS
from argosy.model.post.config import SFTConfig
from argosy.model.post.rl import RLHFConfig, asks_model
from argosy.model.post.synthesis import HeldOut
from steps.export import ExportConfig
from steps.merge import MergeConfig
from steps.quantize import QuantizeConfig
from steps.synthesize import SynthesizeConfig
from workflows.graph import FINAL, Node, definition, definitions
from workflows.stages import Stages

TWIN_CONVERSATIONS = ("twin.jsonl",)  # the instructions, and the benchmark's questions with their answers
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SET_BY_THE_TREE = {
    "checkpoint": "`from` names the item to begin with",
    "of": "`from` names the item", "stage": "an item is called by its name",
    "tokenized": "it is tokenize's, where pretraining_share or awq asks for texts"}


class Branch(Config):
    """An item of the tree: its place, and beside it the fields of its method's step."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    name: str
    """Name of its stage in the report, in `resources` and in overrides (posttraining.NAME.learning_rate=1e-5)."""
    method: str
    """sft, reward_model, a method of preferences (dpo, ipo, ...) or of RL (ppo, grpo, ...); or one that makes data
    (best_of_n, rejection_sampling, distillation, on_policy_pairs)"""
    from_: str = Field("", alias="from")
    """name of the earlier item whose model it trains, or lets answer; empty: the base"""
    reward_model: str = ""
    """name of the earlier item that rewards ask"""
    data: str = ""
    """name of the earlier item whose data it trains on; empty: the data step's"""

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
            if name in fields and (name, self.step) != ("of", "merge"):
                raise ValueError(f"{name} is set by the pipeline ({why}): leave it out")
        if "method" in definition(self.step).config.model_fields:
            fields["method"] = self.method
        try:
            found: Config = validated(definition(self.step).config, fields).model_copy(update={"stage": self.name})
            return found
        except InputError as error:
            raise ValueError(str(error)) from None


@cache
def branch_steps() -> tuple[str, ...]:
    return tuple(name for name, step in definitions().items() if step.methods)


@cache
def steps_of_methods() -> Mapping[str, str]:
    return {method: name for name in branch_steps() for method in definition(name).methods}


def check_branches(branches: Sequence[Branch], stages: Sequence[str]) -> None:
    """Check that `branches` are a tree whose names are not among `stages`, and each one's own fields. Raises
    ValueError: they are not; names the item."""
    before: dict[str, Branch] = {}
    for index, branch in enumerate(branches):
        try:
            _check_name(branch.name, before, stages)
            config = branch.config()
            later = [other.name for other in branches[index:]]
            _check_link("from", branch.from_, before, later)
            _check_link("reward_model", branch.reward_model, before, later)
            _check_link("data", branch.data, before, later)
            _check_models(branch, config, before)
            _check_data(branch, config, before)
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
    if isinstance(config, MergeConfig) and branch.from_:
        raise ValueError(f"from is {branch.from_!r}, and a merge is of several: name all of them as `of`")
    if branch.from_ and before[branch.from_].step == "quantize":
        raise ValueError(f"from is {branch.from_!r}, whose weights are quantized, and no item trains or quantizes them "
                         f"again: begin with {before[branch.from_].from_ or 'the base (leave it out)'}")
    rewards = [name for name, other in before.items() if other.step == "reward_model"]
    if branch.reward_model and branch.reward_model not in rewards:
        method, near = before[branch.reward_model].method, likely(branch.reward_model, rewards) or "there is none"
        raise ValueError(f"reward_model is {branch.reward_model!r}, whose method is {method}; {near}")
    asked = isinstance(config, RLHFConfig | SynthesizeConfig) and asks_model(config.rewards)
    if asked and not branch.reward_model:
        raise ValueError("reward_model is missing, and its rewards ask one: name an earlier item of method "
                         f"reward_model ({', '.join(rewards) or 'there is none'}), or set rewards.model=0")
    if branch.reward_model and not asked:
        raise ValueError(f"reward_model is {branch.reward_model!r}, and nothing asks it: leave it out"
                         + (", or give rewards.model a weight" if branch.step in ("rlhf", "synthesize") else ""))


def _check_data(branch: Branch, config: Config, before: Mapping[str, Branch]) -> None:
    source = before[branch.from_] if branch.from_ else None
    if source and source.step == "synthesize":
        raise ValueError(f"from is {source.name!r}, which makes data and trains no model: set data={source.name}, and "
                         "begin with the item that is to learn it")
    if isinstance(config, SynthesizeConfig) and config.has_teacher and branch.from_:
        raise ValueError(f"from is {branch.from_!r}, and a teacher answers: leave one of the two out")
    if not branch.data:
        return
    files = next(iter(definition(branch.step).files.values()), PROMPTS)
    read = files[0].removesuffix(".jsonl")
    if files[0] in PROMPTS:
        raise ValueError(f"data is {branch.data!r}, and {branch.method} reads the data step's prompts alone: leave it "
                         "out")
    made = before[branch.data].config()
    if not isinstance(made, SynthesizeConfig):
        raise ValueError(f"data is {branch.data!r}, which trains a model and makes no data: from={branch.data} begins "
                         "with it")
    if made.kind != read:
        raise ValueError(f"data is {branch.data!r}, which makes {made.kind}, and {branch.method} reads {read}")


def needed_by(branch: Branch) -> Iterator[str]:
    yield from (name for name in (branch.from_, branch.reward_model, branch.data) if name)


def add_branches(stage: Stages, branches: Sequence[Branch], base: Node | None, data: Node | None, tokenize: Node | None,
                 suites: Mapping[str, tuple[str, ...]]) -> None:
    """Add a node for each item, called by its name.

    `suites`: those of the evaluation, as fields of a config, whose items nothing may learn."""
    found: dict[str, Node | None] = {"": base}
    heldout = _held_out(branches, stage.seed)
    for branch in branches:
        config = branch.config()
        read = found[branch.data] if branch.data else data
        inputs: dict[str, Any] = {"checkpoint": found[branch.from_], "data": read}
        if branch.reward_model:
            inputs["reward_model"] = found[branch.reward_model]
        if isinstance(config, SFTConfig) and config.pretraining_share:
            inputs["tokenized"] = tokenize
        if isinstance(config, QuantizeConfig):
            inputs = _to_quantize(config, found[branch.from_], tokenize)
        if isinstance(config, MergeConfig):
            config, inputs = _to_merge(stage, branch.name, config)
        if isinstance(config, SynthesizeConfig):
            config = config.model_copy(update={} if config.suites else suites)
            config = config.model_copy(update={} if config.heldout else {"heldout": heldout})
            if config.has_teacher:
                del inputs["checkpoint"]
        found[branch.name] = stage(branch.name, branch.step, config, of=f"posttraining.{branch.name}", **inputs)


def add_default_tree(stage: Stages, config: Any, base: Node | None, data: Node | None, tokenize: Node | None) -> None:
    """Add what comes after the base where `posttraining` gives no tree."""
    texts: dict[str, Any] = {"tokenized": tokenize} if config.sft.pretraining_share else {}
    sft = stage("sft", "sft", config.sft, checkpoint=base, data=data, **texts) or base
    seen = config.sft.model_copy(update={"stage": "twin", "conversations": TWIN_CONVERSATIONS})
    stage("twin", "sft", seen, checkpoint=base, data=data, **texts)
    stage("dpo", "preference", config.dpo, checkpoint=sft, data=data)
    reward = stage("reward_model", "reward_model", config.reward_model, checkpoint=sft, data=data)
    stage("rlhf", "rlhf", config.rlhf, checkpoint=sft, reward_model=reward, data=data)
    if config.merge and stage.has("merge"):
        merge, inputs = _to_merge(stage, "merge", config.merge)
        stage("merge", "merge", merge, **inputs)
    given = config.quantize
    inputs = _to_quantize(given, named(stage, "quantize", given), tokenize) if given else {}
    stage("quantize", "quantize", given, **inputs)


def named(stage: Stages, name: str, config: QuantizeConfig | ExportConfig) -> Node | None:
    """Return the node of the model that a stage takes by its field `of`; None where the stage is not among the chosen.
    Raises InputError: there is no such model."""
    return _model(stage, f"{name}.of is", config.of) if stage.has(name) else None


def _model(stage: Stages, where: str, name: str) -> Node:
    made = {node.name: node for node in stage.nodes if node.makes_model}
    if name not in made:
        raise InputError(f"{where} {name!r}, which makes no model here; {likely(name, made)}")
    return made[name]


def _to_merge(stage: Stages, name: str, config: MergeConfig) -> tuple[MergeConfig, dict[str, Any]]:
    """Return the config with the exports that `of` names, and the nodes that make them. Raises InputError: a name is
    none of a model, or of its exports."""
    found = []
    for given in config.of:
        node = _model(stage, f"{name}.of has", given.partition("/")[0])
        export = given.partition("/")[2] or FINAL
        if export not in node.exports:
            raise InputError(f"{name}.of has {given!r}, and {node.name} makes {', '.join(node.exports)}: name one, or "
                             f"add its share of training to {node.name}.exports")
        found.append((node, export))
    inputs: dict[str, Any] = {"checkpoint": found[0][0], "others": [node for node, _ in found[1:]]}
    if config.base_of:
        inputs["base"] = _model(stage, f"{name}.base_of is", config.base_of)
    return config.model_copy(update={"export": found[0][1], "exports": tuple(each for _, each in found[1:])}), inputs


def _to_quantize(config: QuantizeConfig, source: Node | None, tokenize: Node | None) -> dict[str, Any]:
    return {"checkpoint": source, **({"tokenized": tokenize} if config.method == "awq" else {})}


def add_export(stage: Stages, config: ExportConfig | None, evaluated: Sequence[Node], clean: Node | None,
               scored: Sequence[Node] | None) -> None:
    """Add the export of a model, with what its model card tells where it gets one."""
    source = named(stage, "export", config) if config else None
    inputs: dict[str, Any] = {}
    if config and "hub" in config.formats:
        own = [node for node in evaluated if node.upstream["checkpoint"][0] is source
               and getattr(node.config, "export", FINAL) == FINAL]
        inputs = {"evaluations": own, **({"clean": clean, "scored": scored} if clean else {})}
    stage("export", "export", config, checkpoint=source, **inputs)


def _held_out(branches: Sequence[Branch], seed: int) -> tuple[HeldOut, ...]:
    """Return the prompts that the items of RL hold out, beside those of an item with the pipeline's seed."""
    chosen = {(seed, RLHFConfig().heldout_limit)}
    for config in (branch.config() for branch in branches):
        if isinstance(config, RLHFConfig):
            chosen.add((config.seed if "seed" in config.model_fields_set else seed, config.heldout_limit))
    return tuple(HeldOut(seed=own, limit=limit) for own, limit in sorted(chosen))
