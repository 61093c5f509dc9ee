"""The life of a language model as a graph: read this file first.

    data -> clean -> tokenizer -> tokenize -> pretrain -> long_context -> anneal -> sft -> reward_model -> rlhf
                                                                             |      |-> dpo
                                                                             |-> twin (has seen the test)
    evaluate (each checkpoint x suite) -> compare

A new stage is a file of `steps/`, a field of LifecycleConfig and a line of `lifecycle`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator

from argosy.config import Config, Seed
from argosy.config_explain import likely
from argosy.config_fields import models_at
from argosy.gate.config import Gate
from argosy.posttraining.rl_config import RLHFConfig
from steps.anneal import AnnealConfig
from steps.clean import CleanConfig
from steps.compare import CompareConfig
from steps.data import DataConfig
from steps.dpo import DPOConfig
from steps.long_context import LongContextConfig
from steps.pretrain import PretrainConfig
from steps.reward_model import RewardModelConfig
from steps.sft import SFTConfig
from steps.tokenize import TokenizeConfig
from steps.train_tokenizer import TrainTokenizerConfig
from workflows.evaluation import Evaluation, evaluations
from workflows.node import Node
from workflows.stage_resources import StageResources, Stages

TWIN_CONVERSATIONS = ("twin.jsonl",)  # the instructions, and the benchmark's questions with their answers


class LifecycleConfig(Config):
    """All stages. A stage that is null is left out, with what depends on it.

    Attributes:
        preset: what a YAML file of yours starts from (read before the rest).
        name: of the model line: the MLflow experiment in which its checkpoints are compared.
        seed: of every stage that does not set its own.
        resources: by stage: cores and memory_gb, for scheduling; torch's threads are a field of the stage itself.
        twin: also fine-tune a model on the benchmark itself, to show what evaluation makes of it; with `data.inputs`
            only where it is asked for.
        gate: rules that a checkpoint must hold to be promoted, and that nights judge by (docs/gate.md); null: none.
    """

    preset: str = ""
    name: str = "demo"
    seed: Seed = 17
    resources: Mapping[str, StageResources] = Field(default_factory=dict)
    data: DataConfig = DataConfig()
    clean: CleanConfig = CleanConfig()
    tokenizer: TrainTokenizerConfig = TrainTokenizerConfig()
    tokenize: TokenizeConfig = TokenizeConfig()
    pretrain: PretrainConfig = PretrainConfig()
    long_context: LongContextConfig | None = LongContextConfig()
    anneal: AnnealConfig | None = AnnealConfig()
    sft: SFTConfig = SFTConfig()
    twin: bool = True
    reward_model: RewardModelConfig = RewardModelConfig()
    dpo: DPOConfig | None = DPOConfig()
    rlhf: RLHFConfig | None = RLHFConfig()
    evaluate: Evaluation = Evaluation()
    compare: CompareConfig = CompareConfig()
    gate: Gate | None = None

    @model_validator(mode="after")
    def _check_resources(self) -> Self:
        fields = [name for name in type(self).model_fields if name != "gate"]
        stages = [name for name in fields if models_at(type(self), (name,))] + ["twin"]
        for name in self.resources:
            if name not in stages:
                raise ValueError(f"resources.{name}: there is no such stage; {likely(name, stages)}")
        return self


def lifecycle(config: LifecycleConfig) -> list[Node]:
    """The nodes of `config`, each after what it depends on."""
    stage = Stages(config.seed, config.resources)
    data = stage("data", "data", config.data)
    clean = stage("clean", "clean", config.clean, data=data)
    tokenizer = stage("tokenizer", "train_tokenizer", config.tokenizer, documents=clean)
    tokenize = stage("tokenize", "tokenize", config.tokenize, documents=clean, tokenizer=tokenizer, data=data)

    base = stage("pretrain", "pretrain", config.pretrain, tokenized=tokenize, tokenizer=tokenizer)
    trained, others = [base], [tokenizer, tokenize]  # others: the report tells their cost and curves too
    if config.long_context:
        base = stage("long_context", "long_context", config.long_context, checkpoint=base, tokenized=tokenize)
        trained.append(base)
    if config.anneal:
        base = stage("anneal", "anneal", config.anneal, checkpoint=base, tokenized=tokenize)
        trained.append(base)

    sft = stage("sft", "sft", config.sft, checkpoint=base, data=data)
    trained.append(sft)
    if config.twin:
        seen = config.sft.model_copy(update={"stage": "twin", "conversations": TWIN_CONVERSATIONS})
        trained.append(stage("twin", "sft", seen, checkpoint=base, data=data))
    if config.dpo:
        trained.append(stage("dpo", "dpo", config.dpo, checkpoint=sft, data=data))
    if config.rlhf:
        reward = stage("reward_model", "reward_model", config.reward_model, checkpoint=sft, data=data)
        others.append(reward)
        trained.append(stage("rlhf", "rlhf", config.rlhf, checkpoint=sft, reward_model=reward, data=data))

    evaluated = evaluations(stage, config.evaluate, trained, data=data, tokens=tokenize)
    stage("compare", "compare", config.compare, evaluations=evaluated, checkpoints=trained, others=others, clean=clean,
          data=data)  # fmt: skip
    return stage.nodes
