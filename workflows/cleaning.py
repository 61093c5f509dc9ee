"""The nodes of cleaning: a classifier where one is asked for, parts that score the shards, and decisions."""

from collections.abc import Sequence
from pathlib import Path

from argosy.core.errors import InputError
from argosy.core.store.remote import absolute
from argosy.corpus.cleaning.classifier.model_paths import number_models
from argosy.corpus.cleaning.filter import FilterConfig
from argosy.corpus.cleaning.filters import FILTERS as KINDS
from argosy.model.weights.elsewhere import EXAMPLE
from steps.clean import CleanConfig
from steps.data import DataConfig
from steps.measure import MeasureConfig
from steps.score import ScoreConfig
from steps.train_classifier import TrainClassifierConfig
from workflows.graph import Node
from workflows.stages import Stages

TOGETHER = 8  # shards that one process may score one after the other, to start up once
CLASSIFIER = "quality_classifier"  # the filter that asks what the stage `classifier` trains
FILTERS = (CLASSIFIER, {"name": "perplexity", "model": "."})  # with which a graph has all stages of cleaning


def cleaning(stage: Stages, source: DataConfig, classifier: TrainClassifierConfig | None, clean: CleanConfig,
             data: Node | None) -> tuple[list[Node], Node | None]:
    """Add the nodes of cleaning; returns the parts that score, and the one that decides. Raises InputError: a filter
    asks a classifier, and none is trained or named."""
    trained = stage("classifier", "train_classifier", classifier, data=data)
    if not stage.has("clean"):
        return [], None
    scored = _scored(stage, source, clean, data, trained)
    filters, _ = number_models(clean.filters)
    measured = _measured(stage, clean, scored) or None  # None: no input of clean, as before there were any
    deciding = clean.model_copy(update={"filters": filters})
    return scored, stage("clean", "clean", deciding, data=data, scored=scored, measured=measured)


def _scored(stage: Stages, source: DataConfig, clean: CleanConfig, data: Node | None, classifier: Node | None
            ) -> list[Node]:
    """Add a part for each shard: read, repair and measure it, which thresholds have no say in."""
    asks = any(one.name == CLASSIFIER and not getattr(one, "model", "") for one in clean.filters)
    if asks and not classifier:
        raise InputError(f"clean.filters has {CLASSIFIER}, and there is no classifier: set classifier.positives to "
                         "files of good documents, which trains one, or the filter's model to the directory of one")
    filters, models = number_models(_scoring(clean, measured=False))
    inputs = tuple(map(absolute, source.inputs))
    parts = (ScoreConfig(inputs=inputs, source=source.source, filters=filters, word_lists=clean.word_lists,
                         models=models, shard=number, shards=clean.shards) for number in range(clean.shards))
    nodes = (stage("score", "score", part, part=f"{part.shard:05}", batch=TOGETHER, of="clean", data=data,
                   classifier=classifier if asks else None)
             for part in parts)
    return [node for node in nodes if node]


def _measured(stage: Stages, clean: CleanConfig, scored: Sequence[Node]) -> list[Node]:
    """Add a part for each shard that scores its documents by models of torch, where filters ask any."""
    filters, models = number_models(_scoring(clean, measured=True))
    for path in models:
        if not Path(path).exists():
            raise InputError(f"clean.filters names the model {path!r}: there is no such directory here (looked in "
                             f"{Path.cwd()}), and a name of the Hugging Face hub needs a commit, as in {EXAMPLE}")
    config = MeasureConfig(filters=filters, models=models, threads=clean.model_threads, dtype=clean.model_dtype)
    nodes = (stage("measure", "measure", config, part=node.part, batch=TOGETHER, scored=node)
             for node in scored if filters)
    return [node for node in nodes if node]


def _scoring(clean: CleanConfig, measured: bool) -> list[FilterConfig]:
    """List what of the filters' configs decides scores: those that ask models of torch, or the others."""
    kinds = ((KINDS[one.name], one) for one in clean.filters)
    return [kind.scoring_config(one) for kind, one in kinds if kind.measured is measured]
