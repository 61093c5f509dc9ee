"""Checks of a pipeline's inputs before anything runs: what a step would refuse minutes or hours later."""

from collections.abc import Collection
from os.path import expanduser
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.step.machine import usable_gpus
from argosy.core.store.files import read_record
from argosy.corpus.cleaning.classifier.model import check_saved
from argosy.corpus.cleaning.classifier.model_paths import ModelFilterConfig
from argosy.corpus.cleaning.dedup.index import INDEX
from argosy.corpus.cleaning.filters import FILTERS
from argosy.corpus.cleaning.tiers import tier_channels
from argosy.corpus.data.sample import input_channels
from argosy.corpus.data.sources import RESERVED_CHANNEL, check_channels, check_mixture, rest_of
from argosy.corpus.tokens.amounts import micro_batch_problem
from argosy.evidence.results.suite import find_suite, load_suite
from argosy.model.post.config import PosttrainingConfig
from argosy.model.post.preferences.config import PreferenceMethodConfig
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.numerics import NumericsConfig
from argosy.model.weights.checkpoint import find_checkpoint, no_model_because
from argosy.model.weights.elsewhere.imported import check_files as check_model
from evals.task import TaskSpec
from evals.task_sources import check_there
from steps.clean import CleanConfig
from steps.data import FEEDBACK, FILES, DataConfig, check_files
from steps.train_classifier import check_sets
from workflows.lifecycle import POSTTRAINING, LifecycleConfig


def check_inputs(config: LifecycleConfig, stages: Collection[str]) -> None:
    """Check the user's files, the channels of the mixtures and the benchmarks of the suites, as far as a look tells.

    `stages`: those that are to run. Raises InputError: one of them would refuse what it reads."""
    if "data" in stages:
        check_files(config.data)
    if "classifier" in stages and config.classifier:
        check_sets(config.classifier)
    if {"score", "measure"} & set(stages):
        _check_models(config.clean)
    if "clean" in stages:
        _check_indexes(config.clean)
    if "start" in stages:
        _check_start(config)
    _check_lengths(config, stages)
    _check_feedback(config, stages)
    _check_phases(config, stages)
    named = {f"{name}.{field}": getattr(stage, field) for name, stage in config
             if name in stages and isinstance(stage, TrainConfig)  # others have channels of records
             for field in ("mixture", "loss_weights", "max_epochs", "max_epochs_in_all") if getattr(stage, field, None)}
    there = {RESERVED_CHANNEL} if config.data.has_conversations else set()
    filtered = _channels_of_filters(config.clean) if "clean" in stages else {}
    channels = _channels(config.data) if named or filtered or config.clean.tiers else None
    if channels is not None:
        for where, some in filtered.items():
            check_channels(some, channels | {RESERVED_CHANNEL}, where)
        channels |= tier_channels(config.clean.tiers, channels)
        for where, weights in named.items():
            check = check_mixture if where.endswith(".mixture") else check_channels
            rest = rest_of(weights, channels | there, where) if "max_epochs" in where else ""
            check({name: weight for name, weight in weights.items() if name != rest}, channels | there, where)
    for suite, which in config.evaluate.suites.items() if "evaluate" in stages else ():
        if which != "none":
            _check_suite(suite)


def _check_feedback(config: LifecycleConfig, stages: Collection[str]) -> None:
    """Check that the user's replies with labels are learnt from, and that what is to read such replies has them.

    Else KTO would learn from the demo's pairs, which are what its defaults name, beside feedback that nobody reads."""
    readers = {"dpo": config.dpo} if config.dpo and "dpo" in stages else {}
    for branch in config.posttraining:
        own = branch.config()
        if isinstance(own, PreferenceMethodConfig) and not branch.data and branch.name in stages:
            readers[f"posttraining.{branch.name}"] = own
    for name, reader in readers.items():
        lacking = [field for field in ("preferences", "heldout") if getattr(reader, field) in FEEDBACK]
        if lacking and not config.data.feedback:
            raise InputError(f"{name}.{lacking[0]} is {getattr(reader, lacking[0])!r}, and there is no feedback: set "
                             "data.feedback=FILE, or leave it out to learn from pairs")
    learning = [reader for reader in readers.values() if reader.preferences in FEEDBACK]
    if config.data.feedback and readers and not learning:
        name = next(iter(readers))
        raise InputError(f"data.feedback is given, and {' and '.join(readers)} would learn from the pairs of "
                         f"preferences.jsonl: set {name}.method=kto {name}.preferences={FEEDBACK[0]} "
                         f"{name}.heldout={FEEDBACK[1]}, or leave data.feedback out")


def _channels_of_filters(config: CleanConfig) -> dict[str, set[str]]:
    """Return the channels that filters name, by field; recipes skip code, whether there is some or not."""
    named = {f"clean.filters[{at}].{field}": set(getattr(one, field, ())) - {"code"}
             for at, one in enumerate(config.filters) for field in ("priorities", "skip_channels")}
    return {where: names for where, names in named.items() if names}


def _check_indexes(config: CleanConfig) -> None:
    """Check that earlier corpora are directories of clean steps that have left an index."""
    for at, directory in enumerate(config.against):
        if not (Path(directory) / INDEX).is_dir():
            raise InputError(f"clean.against[{at}]: {directory} has no folder {INDEX}: give the directory of a "
                             "finished clean step (runs/clean-...) with clean.index=true and the same deduplicating "
                             "filters")


def _check_start(config: LifecycleConfig) -> None:
    """Check that the directory to begin with holds a model, as its step does before it loads it."""
    model = config.start.model if config.start else ""
    if model and (problem := no_model_because(Path(model))):
        raise InputError(f"start.model is {model!r}: {problem}")
    if model:
        check_model(find_checkpoint(model).path)


def _check_lengths(config: LifecycleConfig, stages: Collection[str]) -> None:
    """Check that no stage has longer samples or examples than the model's context, where that is known, nor
    micro-batches beyond their batch."""
    context: Any = config.pretrain.model.max_position_embeddings
    if config.start:
        context = read_record(Path(config.start.model) / "config.json").get("max_position_embeddings")
    _check_samples(config, "pretrain", context, stages)
    if config.long_context and "long_context" in config.chosen():
        context = config.long_context.sequence_length
    _check_samples(config, "anneal", context, stages)
    tuned = {name: (name, getattr(config, name)) for name in POSTTRAINING if not config.posttraining}
    tuned |= {branch.name: (f"posttraining.{branch.name}", branch.config()) for branch in config.posttraining}
    for stage, (where, own) in tuned.items():
        written = isinstance(own, PosttrainingConfig) and "micro_batch_size" in own.model_fields_set
        if stage in stages and written and (problem := micro_batch_problem(own, "batch_size", written=True)):
            raise InputError(f"{where}.{problem}")
        length = getattr(own, "max_length", 0)
        if stage in stages and isinstance(context, int) and length > context:
            raise InputError(f"{where}.max_length={length} is more than the {context} tokens of the model's context: "
                             "lower it, or set 0 for the context")


def _check_samples(config: LifecycleConfig, name: str, context: Any, stages: Collection[str]) -> None:
    phase = getattr(config, name)
    if name in stages and phase and isinstance(context, int) and phase.sequence_length > context:
        raise InputError(f"{name}.sequence_length={phase.sequence_length} is more than the {context} tokens of the "
                         "model's context (max_position_embeddings): lower it, or lengthen the context before "
                         "(long_context, or pretrain.model.max_position_embeddings of a new model)")


def _check_phases(config: LifecycleConfig, stages: Collection[str]) -> None:
    """Check that each phase of training can be computed by the devices that it has, and divides the model it has."""
    for name, phase in config:
        if name not in stages or not isinstance(phase, NumericsConfig):
            continue
        given = config.resources.get(name)
        gpus = given.gpus if given else None
        on_cpu = not (usable_gpus() if gpus is None else gpus)
        file = Path(config.start.model) / "config.json" if config.start and config.start.model else None
        shapes = read_record(file) if file and phase.divides else {}
        problem = (phase.cpu_problem() if on_cpu else "") or (phase.shape_problem(shapes) if shapes else "")
        if problem:
            raise InputError(f"{name}.{problem}")


def _check_models(config: CleanConfig) -> None:
    """Check that the models that filters ask are there."""
    for at, one in enumerate(config.filters):
        model = getattr(one, "model", "") if isinstance(one, ModelFilterConfig) else ""
        if model and FILTERS[one.name].measured:
            from argosy.model.infer.documents import check_model

            check_model(expanduser(model), one.name == "edu_quality", f"clean.filters[{at}].model")
        elif model:
            check_saved(Path(expanduser(model)))


def _channels(data: DataConfig) -> set[str] | None:
    return input_channels(data.inputs, data.source) if data.inputs else data.demo.channels


def _check_suite(name: str) -> None:
    """Check that a suite of benchmarks alone finds one of them; with other sections it has results without."""
    suite = load_suite(str(find_suite(name)))
    if suite.benchmarks and not suite.benchmarks.get("lm_eval") and suite.probes is None and suite.heldout is None:
        tasks = {name: TaskSpec.model_validate(task) for name, task in suite.benchmarks["tasks"].items()}
        check_there(tasks, FILES, suite.name)
