"""The life of a language model as a graph: read this file first.

    data -> clean -> tokenizer -> tokenize -> pretrain -> long_context -> anneal -> sft -> reward_model -> rlhf
                                                                             |      |-> dpo
                                                                             |-> twin (has seen the test)
    evaluate (each checkpoint x suite) -> compare

Each stage is a file of `steps/`; the library under it is a folder:

    data                                 argosy/demo, argosy/data
    clean                                argosy/cleaning, argosy/text
    tokenizer, tokenize                  argosy/tokens
    pretrain, long_context, anneal       argosy/training, argosy/models
    sft, twin, dpo, reward_model, rlhf   argosy/posttraining, argosy/training
    evaluate                             evals, probes, argosy/evaluation, argosy/scoring
    compare                              argosy/compare, argosy/statistics

A new stage is a file of `steps/`, a field of LifecycleConfig and a line of `lifecycle`.
"""

from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator

from argosy.compare.gate.config import Gate
from argosy.config.explain import likely
from argosy.config.schema import Config, Role, Seed, models_at
from argosy.posttraining.rl.config import RLHFConfig
from steps.anneal import AnnealConfig
from steps.clean import CleanConfig
from steps.compare import CompareConfig
from steps.data import CONVERSATIONS, PREFERENCES, PROMPTS, DataConfig
from steps.dpo import DPOConfig
from steps.long_context import LongContextConfig
from steps.pretrain import PretrainConfig
from steps.reward_model import RewardModelConfig
from steps.sft import SFTConfig
from steps.tokenize import TokenizeConfig
from steps.train_tokenizer import TrainTokenizerConfig
from workflows.evaluation import Evaluation, evaluations
from workflows.graph import Node, StageResources, Stages

TWIN_CONVERSATIONS = ("twin.jsonl",)  # the instructions, and the benchmark's questions with their answers

_FILES_OF_DATA = {
    ("sft", "conversations"): CONVERSATIONS, ("sft", "heldout"): CONVERSATIONS,
    ("reward_model", "preferences"): PREFERENCES, ("reward_model", "heldout"): PREFERENCES,
    ("dpo", "preferences"): PREFERENCES, ("dpo", "heldout"): PREFERENCES, ("rlhf", "prompts"): PROMPTS,
}  # fmt: skip


class LifecycleConfig(Config):
    """All stages. A stage that is null is left out, with what depends on it."""

    preset: str = ""
    """What a YAML file of yours starts from (read before the rest)."""
    name: str = "demo"
    """Of the model line: the MLflow experiment in which its checkpoints are compared."""
    seed: Seed = 17
    """Of every stage that does not set its own."""
    resources: Mapping[str, StageResources] = Field(default_factory=dict)
    """By stage: cores, memory_gb and gpus; torch's threads and the processes are fields of the stage itself."""
    data: DataConfig = DataConfig()
    clean: CleanConfig = CleanConfig()
    tokenizer: TrainTokenizerConfig = TrainTokenizerConfig()
    tokenize: TokenizeConfig = TokenizeConfig()
    pretrain: PretrainConfig = PretrainConfig()
    long_context: LongContextConfig | None = LongContextConfig()
    anneal: AnnealConfig | None = AnnealConfig()
    sft: SFTConfig = SFTConfig()
    twin: bool = True
    """Also fine-tune a model on the benchmark itself, to show what evaluation makes of it; with `data.inputs` only
    where it is asked for."""
    reward_model: RewardModelConfig = RewardModelConfig()
    dpo: DPOConfig | None = DPOConfig()
    rlhf: RLHFConfig | None = RLHFConfig()
    evaluate: Evaluation = Evaluation()
    compare: CompareConfig = CompareConfig()
    gate: Gate | None = None
    """Rules that a checkpoint must hold to be promoted, and that nights judge by (docs/gate.md); null: none."""

    @model_validator(mode="after")
    def _check_resources(self) -> Self:
        fields = [name for name in type(self).model_fields if name != "gate"]
        stages = [name for name in fields if models_at(type(self), (name,))] + ["twin"]
        for name in self.resources:
            if name not in stages:
                raise ValueError(f"resources.{name}: there is no such stage; {likely(name, stages)}")
        return self

    @model_validator(mode="after")
    def _check_files_of_data(self) -> Self:
        for (stage, field), files in _FILES_OF_DATA.items():
            given = getattr(getattr(self, stage), field, ())
            for name in (given,) if isinstance(given, str) else given:
                if name not in files:
                    raise ValueError(f"{stage}.{field} has {name!r}, allowed: the files of the data step, "
                                     f"{', '.join(files)}; records of yours: data.instructions=FILE and the like")
        return self

    @model_validator(mode="after")
    def _check_wired(self) -> Self:
        for stage, config in self:
            for name in config.fields_with(Role.UPSTREAM) if isinstance(config, Config) else ():
                if name in config.model_fields_set:
                    raise ValueError(f"{stage}.{name} is set by the pipeline, to the directory of an earlier stage: "
                                     "leave it out; a step that is run by hand (python -m steps.NAME) takes one")
        return self


def lifecycle(config: LifecycleConfig) -> list[Node]:
    """Build the nodes of `config`, each after those that it depends on."""
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
