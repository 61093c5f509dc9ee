"""The life of a language model as a graph: read this file first.

    data -> (classifier ->) score (each shard) (-> measure) -> clean -> tokenizer -> tokenize
    tokenize -> pretrain -> long_context -> anneal
    anneal -> sft -> reward_model -> rlhf
       |       |-> dpo
       |-> twin (has seen the test)
    evaluate (each checkpoint x suite) -> compare

With `start`, a model that is there already takes the place of tokenizer and pretrain, or is what pretrain goes on with;
`stages` leaves out all that it does not name; `posttraining` puts a tree of its own in place of all from sft to rlhf.

Each stage is a file of `steps/`; the library under it is a folder:

    data                                 argosy/corpus/demo, argosy/corpus/data
    classifier, score, clean             argosy/corpus/cleaning, argosy/corpus/text
    measure                              argosy/corpus/cleaning, argosy/model/infer
    start                                argosy/model/weights
    tokenizer, tokenize                  argosy/corpus/tokens
    pretrain, long_context, anneal       argosy/model/train, argosy/model/weights
    sft, twin, dpo, reward_model, rlhf   argosy/model/post, argosy/model/train
    data of a model's own answers        argosy/model/post/synthesis (an item of `posttraining`)
    evaluate                             evals, probes, argosy/evidence/results, argosy/model/infer
    compare                              argosy/evidence/compare, argosy/core/statistics

A new stage is a file of `steps/`, a field of LifecycleConfig and a line of `lifecycle`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from pydantic import Field, model_validator

from argosy.core.config.explain import likely
from argosy.core.config.schema import Config, Role, Seed, models_at
from argosy.core.errors import InputError
from argosy.evidence.gate.config import Gate
from argosy.model.post.config import SFTConfig
from argosy.model.post.preferences.config import PreferenceMethodConfig
from argosy.model.post.rl.config import RLHFConfig
from steps.anneal import AnnealConfig
from steps.clean import CleanConfig
from steps.compare import CompareConfig
from steps.data import CONVERSATIONS, FEEDBACK, PREFERENCES, PROMPTS, DataConfig
from steps.long_context import LongContextConfig
from steps.pretrain import PretrainConfig
from steps.reward_model import RewardModelConfig
from steps.start import StartConfig
from steps.tokenize import TokenizeConfig
from steps.train_classifier import TrainClassifierConfig
from steps.train_tokenizer import TrainTokenizerConfig
from workflows.branches import Branch, add_branches, check_branches, needed_by
from workflows.cleaning import FILTERS, cleaning
from workflows.evaluation import Evaluation, benchmark_suites, check_without_tokens, decontaminated, evaluations
from workflows.graph import LINE, NEEDED, Node, StageResources, Stages

STAGES = ("data", "classifier", "score", "measure", "clean", "start", "tokenizer", "tokenize", "pretrain",
          "long_context", "anneal", "sft", "twin", "dpo", "reward_model", "rlhf", "evaluate", "compare")
POSTTRAINING = ("sft", "twin", "dpo", "reward_model", "rlhf")  # the tree of those who give no `posttraining`
_IMPLIED = ("data", "classifier", "score", "measure", "start")  # there where a stage of `stages` needs them
_NEW = ("tokenizer", "pretrain")  # of a model that begins with nothing
TWIN_CONVERSATIONS = ("twin.jsonl",)  # the instructions, and the benchmark's questions with their answers

_FILES_OF_DATA = {
    ("sft", "conversations"): CONVERSATIONS, ("sft", "heldout"): CONVERSATIONS,
    ("reward_model", "preferences"): PREFERENCES, ("reward_model", "heldout"): PREFERENCES,
    ("dpo", "preferences"): (*PREFERENCES, *FEEDBACK), ("dpo", "heldout"): (*PREFERENCES, *FEEDBACK),
    ("rlhf", "prompts"): PROMPTS, ("synthesize", "prompts"): (*PROMPTS, CONVERSATIONS[0], PREFERENCES[0]),
}  # fmt: skip


class LifecycleConfig(Config):
    """All stages. A stage that is null is left out, with what depends on it."""

    preset: str = ""
    """What a YAML file of yours starts from (read before the rest)."""
    name: str = LINE
    """Of the model line: the MLflow experiment in which its checkpoints are compared."""
    seed: Seed = 17
    """Of every stage that does not set its own."""
    resources: Mapping[str, StageResources] = Field(default_factory=dict)
    """By stage: cores, memory_gb and gpus; torch's threads and the processes are fields of the stage itself."""
    stages: tuple[str, ...] = ()
    """The stages to have, such as [sft, evaluate], with the data and the model of `start` where they need them; empty:
    all of a new model, or all but tokenizer and pretrain with `start`."""
    start: StartConfig | None = None
    """A model to begin with (docs/start.md); null: pretraining begins with nothing."""
    data: DataConfig = DataConfig()
    classifier: TrainClassifierConfig | None = None
    """Training of the classifier that the filter quality_classifier asks (docs/quality.md); null: none."""
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
    dpo: PreferenceMethodConfig | None = PreferenceMethodConfig()
    """Learning from preferences directly, by its `method`."""
    rlhf: RLHFConfig | None = RLHFConfig()
    posttraining: tuple[Branch, ...] = ()
    """A tree of post-training of your own in place of sft, twin, reward_model, dpo and rlhf, such as
    [{name: a, method: sft}, {name: b, from: a, method: dpo}] (docs/branches.md)."""
    evaluate: Evaluation = Evaluation()
    compare: CompareConfig = CompareConfig()
    gate: Gate | None = None
    """Rules that a checkpoint must hold to be promoted, and that nights judge by (docs/gate.md); null: none."""

    @model_validator(mode="after")
    def _check_posttraining(self) -> Self:
        check_branches(self.posttraining, STAGES)
        return self

    @model_validator(mode="after")
    def _check_resources(self) -> Self:
        fields = [name for name in type(self).model_fields if name != "gate"]
        stages = [name for name in fields if models_at(type(self), (name,))] + ["score", "measure", "twin"]
        stages = [name for name in stages if name != "posttraining"] + [branch.name for branch in self.posttraining]
        for name in self.resources:
            if name not in stages:
                raise ValueError(f"resources.{name}: there is no such stage; {likely(name, stages)}")
        return self

    @model_validator(mode="after")
    def _check_files_of_data(self) -> Self:
        readers = [(stage, stage, getattr(self, stage)) for stage in POSTTRAINING if stage != "twin"]
        for index, branch in enumerate(self.posttraining):
            step = "dpo" if branch.step == "preference" else branch.step
            readers.append((f"posttraining[{index}]", step, branch.config()))
        for where, step, config in readers:
            for field, files in ((field, files) for (of, field), files in _FILES_OF_DATA.items() if of == step):
                given = getattr(config, field, ())
                wrong = [name for name in ((given,) if isinstance(given, str) else given) if name and name not in files]
                if wrong:
                    raise ValueError(f"{where}.{field} has {wrong[0]!r}, allowed: the files of the data step, "
                                     f"{', '.join(files)}; records of yours: data.instructions=FILE and the like")
        return self

    @model_validator(mode="after")
    def _check_wired(self) -> Self:
        for stage, config in self:
            for name in config.fields_with(Role.UPSTREAM) if isinstance(config, Config) else ():
                if name in config.model_fields_set:
                    raise ValueError(f"{stage}.{name} is set by the pipeline, to the directory of an earlier stage: "
                                     "leave it out, and name a model to begin with as start.model; a step that is run "
                                     "by hand (python -m steps.NAME) takes one")
        return self

    @model_validator(mode="after")
    def _check_start(self) -> Self:
        if self.start and not (self.start.model or self.start.hub):
            raise ValueError("start.model is empty: name the directory of a model, or org/name@commit of the hub; or "
                             "set start=null")
        if self.start and "pretrain" in self.stages and "model" in self.pretrain.model_fields_set:
            raise ValueError("pretrain.model describes a new model, and start.model is there already: leave one out "
                             "(the preset continue has none)")
        return self

    @model_validator(mode="after")
    def _check_parallelism(self) -> Self:
        """Check that the new model's shapes can be shared out over processes as each phase says."""
        phases = {"pretrain": self.pretrain, "long_context": self.long_context, "anneal": self.anneal}
        for stage, config in phases.items() if self.start is None else ():
            if config and (problem := config.shape_problem(self.pretrain.model.shapes)):
                raise ValueError(f"{stage}.{problem}")
        return self

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        items = {branch.name: branch for branch in self.posttraining}
        known = [name for name in STAGES if not (items and name in POSTTRAINING)] + [*items]
        for name in self.stages:
            if name not in known:
                raise ValueError(f"stages has {name!r}: there is no such stage; {likely(name, known)}")
            lacks = [other for other in needed_by(items[name]) if other not in self.stages] if name in items else []
            if lacks:
                raise ValueError(f"stages has {name}, which needs {', '.join(lacks)}: add it")
            if name not in items and not getattr(self, name, True):
                off = "false" if name == "twin" else "null"
                raise ValueError(f"stages has {name}, which is left out by {name}={off}: remove one of the two")
        if self.start and "tokenizer" in self.stages:
            raise ValueError("stages has tokenizer, and start.model has one of its own: leave tokenizer out")
        reward = self.rlhf and self.rlhf.asks_model and "rlhf" in self.stages
        if reward and "reward_model" not in self.stages:
            raise ValueError("stages has rlhf, whose rewards ask the reward model: add reward_model, or set "
                             "rlhf.rewards.model=0")
        return self

    @model_validator(mode="after")
    def _check_carried(self) -> Self:
        phases = [name for name in ("pretrain", "long_context", "anneal") if name in self.chosen()]
        for before, name in zip([None, *phases], phases, strict=False):
            if getattr(getattr(self, name), "carry_optimizer", False):
                if before is None:
                    raise ValueError(f"{name}.carry_optimizer=true goes on with the optimizer of the phase before, and "
                                     "there is none: set it to false")
                if not getattr(self, before).keep_optimizer:
                    raise ValueError(f"{name}.carry_optimizer=true goes on with the optimizer of {before}, which keeps "
                                     f"none: set {before}.keep_optimizer=true too")
        return self

    def known(self) -> tuple[str, ...]:
        """Name all stages that there are, chosen or not: those of the pipeline and of `posttraining`."""
        return (*STAGES, *(branch.name for branch in self.posttraining))

    def chosen(self) -> set[str]:
        """Name the stages that the graph may have."""
        if self.stages:
            return {*self.stages, *_IMPLIED}
        null = {name for name in STAGES if not getattr(self, name, True)}
        null |= set() if self.rlhf else {"reward_model"}
        tree = {branch.name for branch in self.posttraining}
        return {*STAGES} - null - ({*_NEW} if self.start else set()) - ({*POSTTRAINING} if tree else set()) | tree


def lifecycle(config: LifecycleConfig) -> list[Node]:
    """Build the nodes of `config`, each after those that it depends on.

    Raises InputError: a stage lacks what it needs; says what to add."""
    stage = Stages(config.seed, config.resources, config.known(), config.chosen())
    data = stage("data", "data", decontaminated(config.data, config.evaluate))
    scored, clean = cleaning(stage, config.data, config.classifier, config.clean, data)
    start = stage("start", "start", config.start)
    tokenizer = stage("tokenizer", "train_tokenizer", config.tokenizer, documents=clean, scored=scored)
    tokenize = stage("tokenize", "tokenize", config.tokenize, documents=clean, scored=scored,
                     tokenizer=tokenizer or start, data=data if config.data.has_conversations else None)  # fmt: skip

    source = {"checkpoint": start} if start else {"tokenizer": tokenizer}
    base = stage("pretrain", "pretrain", config.pretrain, tokenized=tokenize, **source) or start
    base = stage("long_context", "long_context", config.long_context, checkpoint=base, tokenized=tokenize) or base
    base = stage("anneal", "anneal", config.anneal, checkpoint=base, tokenized=tokenize) or base

    if config.posttraining:
        add_branches(stage, config.posttraining, base, data, tokenize, benchmark_suites(config.evaluate))
    else:
        _default_tree(stage, config, base, data, tokenize)
    others = [node for node in (tokenizer, tokenize) if node]  # the report tells their cost and curves too
    others += [node for node in stage.nodes if node.step in ("reward_model", "synthesize")]
    trained = [node for node in stage.nodes if node not in (data, *scored, clean, *others)]
    _check_evaluated(config, trained, tokenize)
    evaluated = evaluations(stage, config.evaluate, trained, data=data, tokens=tokenize)
    stage("compare", "compare", config.compare, evaluations=evaluated, checkpoints=trained, others=others, clean=clean,
          data=data)  # fmt: skip
    return _without_unused(stage.nodes, config)


def _default_tree(
    stage: Stages, config: LifecycleConfig, base: Node | None, data: Node | None, tokenize: Node | None
) -> None:
    texts: dict[str, Any] = {"tokenized": tokenize} if config.sft.pretraining_share else {}
    sft = stage("sft", "sft", config.sft, checkpoint=base, data=data, **texts) or base
    seen = config.sft.model_copy(update={"stage": "twin", "conversations": TWIN_CONVERSATIONS})
    stage("twin", "sft", seen, checkpoint=base, data=data, **texts)
    stage("dpo", "preference", config.dpo, checkpoint=sft, data=data)
    reward = stage("reward_model", "reward_model", config.reward_model, checkpoint=sft, data=data)
    stage("rlhf", "rlhf", config.rlhf, checkpoint=sft, reward_model=reward, data=data)


def _check_evaluated(config: LifecycleConfig, trained: list[Node], tokenize: Node | None) -> None:
    if "evaluate" not in config.chosen():
        return
    if not trained:
        raise InputError(f"stage evaluate needs {NEEDED['checkpoint']}")
    if tokenize is None:
        check_without_tokens(config.evaluate)


def _without_unused(nodes: list[Node], config: LifecycleConfig) -> list[Node]:
    """Leave out what is there for stages that need it, where none does."""
    used = {id(other) for node in nodes for others in node.upstream.values() for other in others}
    wanted = config.stages or config.known()
    return [node for node in nodes if node.name in wanted or id(node) in used]


def every_stage() -> list[Node]:
    """Build the graph of all stages, each depending on all that it may depend on: what a cluster has templates for."""
    others = tuple(name for name in STAGES if name not in ("classifier", "tokenizer"))
    started = LifecycleConfig(start=StartConfig(model="."), stages=others)
    upstream: dict[str, dict[str, None]] = {}
    found: dict[str, Node] = {}
    mixed = LifecycleConfig(sft=SFTConfig(pretraining_share=0.5), classifier=TrainClassifierConfig(),
                            clean=CleanConfig.model_validate({"filters": FILTERS}))
    for node in (*lifecycle(mixed), *lifecycle(started)):
        found.setdefault(node.id, node)
        upstream.setdefault(node.id, {}).update((o.id, None) for nodes in node.upstream.values() for o in nodes)
    merged: dict[str, Node] = {}
    for node in sorted(found.values(), key=lambda node: STAGES.index(node.name)):
        merged[node.id] = replace(node, inputs={"upstream": [merged[name] for name in upstream[node.id]]})
    return list(merged.values())
