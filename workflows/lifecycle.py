"""The life of a language model as a graph: read this file first.

    data -> (classifier ->) score (each shard) (-> measure) -> clean -> tokenizer -> tokenize
    tokenize -> pretrain -> long_context -> anneal
    anneal -> sft -> reward_model -> rlhf
       |       |-> dpo
       |-> twin (has seen the test)
    evaluate (each checkpoint x suite) -> compare

With `start`, a model that is there already takes the place of tokenizer and pretrain, or is what pretrain goes on with;
`stages` leaves out all that it does not name; `posttraining` puts a tree of its own in place of all from sft to rlhf.

A new stage is one file of `steps/`, whose STEP says after which stages it comes (CONTRIBUTING.md)."""

from collections.abc import Mapping
from functools import cache

from pydantic import Field

from argosy.core.config.schema import Seed
from argosy.evidence.gate.config import Gate
from argosy.model.post.config import SFTConfig
from argosy.model.post.preferences import PreferenceMethodConfig
from argosy.model.post.rl import RLHFConfig
from steps.anneal import AnnealConfig
from steps.clean import CleanConfig
from steps.compare import CompareConfig
from steps.data import DataConfig
from steps.export import ExportConfig
from steps.long_context import LongContextConfig
from steps.merge import MergeConfig
from steps.pretrain import PretrainConfig
from steps.quantize import QuantizeConfig
from steps.reward_model import RewardModelConfig
from steps.start import StartConfig
from steps.tokenize import TokenizeConfig
from steps.train_classifier import TrainClassifierConfig
from steps.train_tokenizer import TrainTokenizerConfig
from workflows import rules
from workflows.branches import Branch, add_branches, add_default_tree, add_export
from workflows.cleaning import FILTERS, cleaning
from workflows.evaluation import Evaluation, benchmark_suites, decontaminated, evaluations, with_heldout_texts
from workflows.graph import LINE, Node, Spending, definition
from workflows.stages import Further, StageResources, Stages, add_further

_NEW = ("tokenizer", "pretrain")  # of a model that begins with nothing


class LifecycleConfig(Further):
    """All stages. A stage that is null is left out, with what depends on it."""

    preset: str = ""
    """Preset that this file builds on."""
    name: str = LINE
    """Model line: the MLflow experiment in which its checkpoints are compared."""
    seed: Seed = 17
    """Seed of every stage that does not set its own."""
    resources: Mapping[str, StageResources] = Field(default_factory=dict)
    """Cores, memory_gb and gpus by stage; torch's threads and the processes are fields of the stage itself."""
    learn_resources: bool = False
    """Schedule each stage by what earlier runs of it used, with a margin; `argosy plan` shows what that comes to."""
    gpu_hour_price: float | None = Field(None, gt=0)
    """Price of a GPU for an hour, in any currency, from which the cost of each step follows; null: none is shown."""
    budget: Spending = Spending()
    """The most that it may spend, such as {gpu_hours: 100}; it is refused where that is known not to be enough, and
    stops when it is spent, with the state of its training kept."""
    stages: tuple[str, ...] = ()
    """The stages to have, such as [sft, evaluate], with the data and the model of `start` where they need them; empty:
    all of a new model, or all but tokenizer and pretrain with `start`."""
    start: StartConfig | None = None
    """A model to begin with (docs/start.md); null: pretraining begins with nothing."""
    data: DataConfig = DataConfig()
    classifier: TrainClassifierConfig | None = None
    """Training of the classifier that the filter quality_classifier asks (docs/cleaning.md); null: none."""
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
    merge: MergeConfig | None = None
    """A checkpoint that is the mean of others, or a merge by SLERP or TIES (docs/export.md); null: none."""
    quantize: QuantizeConfig | None = None
    """A copy of the model of the stage `of` in fewer bits, evaluated beside it (docs/export.md); null: none."""
    posttraining: tuple[Branch, ...] = ()
    """A tree of post-training of your own in place of sft, twin, reward_model, dpo, rlhf, merge and quantize, such as
    [{name: a, method: sft}, {name: b, from: a, method: dpo}] (docs/posttraining.md)."""
    evaluate: Evaluation = Evaluation()
    export: ExportConfig | None = None
    """The model of the stage `of` in the formats of others (docs/export.md); null: none."""
    compare: CompareConfig = CompareConfig()
    gate: Gate | None = None
    """Rules that a checkpoint must hold to be promoted, and that nights judge by (docs/gate.md); null: none."""

    def check_fields(self) -> None:
        for rule in rules.RULES:
            rule(self)

    def known(self) -> tuple[str, ...]:
        """Name all stages that there are, chosen or not: those of the pipeline and of `posttraining`."""
        return (*stage_steps(), *(branch.name for branch in self.posttraining))

    def models(self) -> tuple[str, ...]:
        """Name the stages that make checkpoints of a language model."""
        own = {branch.name: branch.step for branch in self.posttraining}
        return tuple(name for name, step in {**stage_steps(), **own}.items() if definition(step).makes_model)

    def default_tree(self) -> tuple[str, ...]:
        """Name the stages in whose place `posttraining` puts its own."""
        return tuple(name for name, step in stage_steps().items() if definition(step).methods)

    def chosen(self) -> set[str]:
        """Name the stages that the graph may have."""
        if self.stages:
            return {*self.stages, *(name for name, step in stage_steps().items() if definition(step).implied)}
        null = {name for name in stage_steps() if not getattr(self, name, True)}
        null |= set() if self.rlhf else {"reward_model"}
        tree = {branch.name for branch in self.posttraining}
        return {*stage_steps()} - null - {*(_NEW if self.start else ()), *(self.default_tree() if tree else ())} | tree


def lifecycle(config: LifecycleConfig) -> list[Node]:
    """Build the nodes of `config`, each after those that it depends on. Raises InputError: a stage lacks what it needs;
    says what to add."""
    stage = Stages(config.seed, config.resources, config.known(), config.chosen(), config.gpu_hour_price)
    _pipeline(stage, config)
    used = {id(other) for node in stage.nodes for others in node.upstream.values() for other in others}
    wanted = config.stages or config.known()
    return [node for node in stage.nodes if node.name in wanted or id(node) in used]


def _pipeline(stage: Stages, config: LifecycleConfig) -> None:
    config = config.model_copy(update={"leaks": with_heldout_texts(getattr(config, "leaks", None), config.evaluate)})
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
        add_default_tree(stage, config, base, data, tokenize)
    trained = [node for node in stage.nodes if node.makes_model]
    others = [node for node in stage.nodes if node in (tokenizer, tokenize) or node.helps]
    evaluated = evaluations(stage, config.evaluate, trained, data=data, tokens=tokenize)
    add_export(stage, config.export, evaluated, clean, scored)
    stage("compare", "compare", config.compare, evaluations=evaluated, checkpoints=trained, clean=clean, data=data,
          others=[*others, *add_further(stage, config)])


def all_but_start(of: str = "sft") -> LifecycleConfig:
    """Return a config with all stages but `start`, which merges, quantizes and exports the model of the stage `of`."""
    made = "sft" if of == "quantize" else of
    merged = "sft" if made in ("merge", "anneal") else made
    return LifecycleConfig(sft=SFTConfig(pretraining_share=0.5), classifier=TrainClassifierConfig(),
                           clean=CleanConfig.model_validate({"filters": FILTERS}), export=ExportConfig(of=of),
                           merge=MergeConfig(of=(merged, "anneal")),
                           quantize=QuantizeConfig(of=made, method="awq"))


@cache
def stage_steps() -> Mapping[str, str]:
    """Map each stage of the pipeline to its step, in the order of this page."""
    stage = Stages(0, {}, known=None)
    _pipeline(stage, all_but_start())
    return stage.named
