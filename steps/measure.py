"""Scores of one shard by models of torch: of documents as the score step has repaired them, apart from thresholds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field

from argosy.core.config.schema import ADDED, RUNTIME, Config, Externals, Upstream
from argosy.core.step.command import main
from argosy.core.step.contract import Planned, Step, StepContext
from argosy.core.step.process import make_deterministic
from argosy.core.store.step_files import given_directory
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.classifier.model_paths import ModelFilterConfig, find_models
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters import Filters, make_filters
from argosy.corpus.cleaning.scores import ScoredShard, ScoresWriter
from argosy.corpus.cleaning.scoring import score
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.shards import read_columns, shard_files

_FIELDS = ("id", "text", "channel", "lang")


class MeasureConfig(Config):
    """Config of the step."""

    scored: Upstream = ""
    """Directory of the score step of this shard."""
    filters: Filters = ()
    """Filters of the clean step that use torch models, without the fields that only change decisions."""
    models: Externals = ()
    """Directories of models: what filters call 0, 1, ... as their `model`."""
    threads: Annotated[int, Field(ge=1)] = 1
    """threads of torch, which decide the last digits of scores"""
    dtype: Annotated[Literal["auto", "weights", "float32", "bfloat16"], ADDED] = "weights"
    """precision that language models compute in; weights: theirs; auto: theirs, or float32 for all where one's is slow
    on the CPU. Classifiers compute in float32"""
    batch_tokens: Annotated[int, RUNTIME, Field(ge=1)] = 8192
    """Tokens of one forward pass."""

    def settled(self, *, gpu: bool) -> Self:
        from argosy.model.weights.load import settled_for

        if self.dtype != "auto":
            return self
        asked = [one for one in self.filters if isinstance(one, ModelFilterConfig) and one.name != "edu_quality"]
        places = find_models(asked, self.models)
        models = [(str(places.get(one.model, one.model)), "final") for one in asked]
        return self.model_copy(update={"dtype": settled_for("auto", models, gpu=gpu)})


class MeasureOutputs(Config):
    """Counts of what was scored."""

    documents: int
    bytes: int


def run(config: MeasureConfig, context: StepContext) -> MeasureOutputs:
    """Score the documents of a shard; a run that was stopped starts anew, as the file appears at the end."""
    make_deterministic(0, config.threads)
    from argosy.model.infer.documents import Models

    directory = given_directory("scored", config.scored, "score")
    places = find_models(config.filters, config.models)
    resources = Resources(models=places, torch=Models(places, config.batch_tokens, config.dtype))
    if config.dtype != "weights":
        print(f"language models compute in {config.dtype}", flush=True)
    filters = make_filters(config.filters, resources)
    writer, total, done, size = ScoresWriter(context.out), len(ScoredShard(directory)), 0, 0
    for batch in _batches(directory):
        sizes = [len(text.encode(errors="surrogatepass")) for text in batch.texts]
        writer.add(score(batch, filters), sizes)
        done, size = done + len(batch), size + sum(sizes)
        context.progress.update(done, total, "documents")
    writer.close()
    return MeasureOutputs(documents=done, bytes=size)


def _batches(directory: Path) -> Iterator[Batch]:
    """Yield the documents of a scored shard by row group, in their order."""
    for path in shard_files(directory):
        for group in read_columns(path, _FIELDS):
            yield Batch([Document(*row) for row in zip(*group.values.values(), strict=True)])


def check(parts: Sequence[Planned], nodes: Sequence[Planned]) -> None:
    """Check that the models that filters ask are there, and of their kind. Raises InputError: one is not."""
    from argosy.model.infer.documents import check_model

    config = parts[0].config
    places = find_models(config.filters, config.models)
    for one in config.filters:
        check_model(str(places.get(one.model, one.model)), one.name == "edu_quality", f"clean.filters.{one.name}.model")


STEP = Step("measure", MeasureConfig, run, needs="train", check=check, implied=True)

if __name__ == "__main__":
    main(STEP)
