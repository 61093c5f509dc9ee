"""Scores of one shard: its documents are read, repaired and measured; what goes is decided later, for all shards."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from argosy.core.config.schema import RUNTIME, Config, Externals, Upstream
from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Planned, Step, StepContext
from argosy.core.store.files import write_json
from argosy.core.store.step_files import given_directory
from argosy.corpus.cleaning.batch import batches
from argosy.corpus.cleaning.classifier.model import check_saved
from argosy.corpus.cleaning.classifier.model_paths import find_models
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters import Filters, make_filters
from argosy.corpus.cleaning.scores import ScoresWriter
from argosy.corpus.cleaning.scoring import score
from argosy.corpus.data.counts import Counts
from argosy.corpus.data.inventory import Shard, one_shard
from argosy.corpus.data.jsonl import JsonlWriters, Reject, read_documents, read_jsonl
from argosy.corpus.data.reading import read_shard
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.shards import ShardWriter
from argosy.corpus.data.sources import SourceConfig

REJECTS = "rejects/documents"
COUNTS = "counts.json"


class ScoreConfig(Config):
    """Config of the step."""

    data: Upstream = ""
    """Directory of a data step, which lists what there is to read."""
    inputs: Annotated[tuple[str, ...], RUNTIME] = ()
    """The files that the data step has listed, as it was given them: they count there, and each shard compares the
    hashes of what it reads with the list. Absolute paths and URIs."""
    source: SourceConfig = SourceConfig()
    """Reading of the files."""
    filters: Filters = ()
    """Filters of the clean step, without the fields that only change decisions."""
    word_lists: Externals = ()
    """Files with more words for `toxicity`, one a line."""
    classifier: Upstream = ""
    """Directory of a train_classifier step, for `quality_classifier`."""
    models: Externals = ()
    """Directories of other classifiers: what filters call 0, 1, ... as their `model`."""
    shard: Annotated[int, Field(ge=0)] = 0
    """Number of this shard, from 0."""
    shards: Annotated[int, Field(ge=1)] = 1
    """Parts that the files are shared out to, by bytes."""
    batch_characters: Annotated[int, RUNTIME, Field(ge=1)] = 2_000_000
    """Characters that are looked at at once: memory grows with them, and no result depends on them."""


class ScoreOutputs(Config):
    """Paths are relative to the step's directory."""

    documents: int
    bytes: int
    """UTF-8 size of the repaired texts."""
    rejected: dict[str, int]
    """Lines, rows or records that hold no document, by reason."""
    damaged: dict[str, str]
    """Files that could not be read to their end, and why."""


def run(config: ScoreConfig, context: StepContext) -> ScoreOutputs:
    """Read, repair and score a shard; a run that was stopped starts anew, as the files appear together at the end."""
    data = given_directory("data", config.data, "data")
    shard = one_shard(data, config.inputs, config.shard, config.shards)
    resources = Resources(tuple(read_documents(data / "sample")), list(read_jsonl(data / "items.jsonl")),
                          [word for path in config.word_lists for word in _words(Path(path))],
                          find_models(config.filters, config.models, config.classifier))
    filters = make_filters(config.filters, resources)
    counts, scores = Counts(), ScoresWriter(context.out)
    total = sum(piece.weight for piece in shard.pieces)
    done = 0
    with JsonlWriters(context.out) as rejects, ShardWriter(context.out) as writer:
        rejects.open(REJECTS)
        for batch in batches(_documents(shard, config, counts, rejects), config.batch_characters):
            scored = score(batch, filters)
            sizes = [len(text.encode(errors="surrogatepass")) for text in batch.texts]
            changed = [[label for label, flags in scored.changed.items() if flags[at]] for at in range(len(batch))]
            writer.write_all(scored.batch.documents, changed)
            scores.add(scored, sizes)
            done += sum(sizes)
            context.progress.update(min(done, total), total, "bytes")
    scores.close()
    write_json(context.out / COUNTS, counts.to_json())
    return ScoreOutputs(documents=writer.documents, bytes=writer.bytes, rejected=counts.rejected(),
                        damaged=counts.damaged())


def _documents(shard: Shard, config: ScoreConfig, counts: Counts, rejects: JsonlWriters) -> Iterator[Document]:
    for item in read_shard(shard, config.source, counts):
        if isinstance(item, Reject):
            rejects.write(REJECTS, item.to_record())
        else:
            yield item


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"clean.word_lists: {path} cannot be read ({error}); expected UTF-8, a word a line") from None


def check(parts: Sequence[Planned], nodes: Sequence[Planned]) -> None:
    """Check that the classifiers that filters ask are there. Raises InputError: one is not."""
    config = parts[0].config
    for path in find_models(config.filters, config.models).values():
        check_saved(path)


STEP = Step("score", ScoreConfig, run, version=3, check=check, implied=True)

if __name__ == "__main__":
    main(STEP)
