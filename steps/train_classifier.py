"""A classifier of quality, from documents that are good and others."""

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Annotated

from pydantic import Field

from argosy.core.config.schema import Config, Upstream
from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.files import write_json
from argosy.core.store.step_files import given_directory
from argosy.corpus.cleaning.classifier.model import FOLDER, Features
from argosy.corpus.cleaning.classifier.training import of_sets, train
from argosy.corpus.data.counts import Counts
from argosy.corpus.data.jsonl import read_documents
from argosy.corpus.data.listing import list_inputs
from argosy.corpus.data.reading import hash_of, read_file
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import Inputs, SourceConfig

REPORT = "report.json"


class TrainClassifierConfig(Config):
    """Config of the step."""

    data: Upstream = ""
    """Directory of a data step, whose sample is the negative set where none is given."""
    positives: Inputs = ()
    """Good documents: files, folders or URIs in any format that `data.inputs` may have."""
    negatives: Inputs = ()
    """Other documents; empty: the sample of the corpus, less copies of the positives."""
    source: SourceConfig = SourceConfig()
    """Reading of these files; with less `text_chars` books give more documents."""
    most_documents: Annotated[int, Field(ge=100)] = 20_000
    """Documents of each set at most, by a hash of their ids."""
    word_grams: Annotated[int, Field(ge=1, le=5)] = 2
    """n-grams of words up to this length; a Han character is a word."""
    character_grams: Annotated[int, Field(ge=0, le=8)] = 4
    """Length of n-grams of characters, spaces and line ends among them; 0: none."""
    bits: Annotated[int, Field(ge=8, le=26)] = 20
    """n-grams are hashed into 2^bits buckets."""
    look_at: Annotated[int, Field(ge=100)] = 10_000
    """Characters of a document that count, from its beginning."""
    c: Annotated[float, Field(gt=0)] = 10.0
    """Weight of errors beside that of large weights, as C of scikit-learn's LogisticRegression."""
    heldout_share: Annotated[float, Field(gt=0, lt=0.4)] = 0.15
    """Share of the documents that training does not see and that measures; as many calibrate."""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Probability from which the report counts a document as good."""

    def check_fields(self) -> None:
        if self.negatives and not self.positives:
            raise ValueError("negatives are given without positives: name files of good documents")


class TrainClassifierOutputs(Config):
    """The classifier, relative to the step's directory, and its measures on documents that it has not seen."""

    classifier: str
    documents: dict[str, int]
    """Number of documents by use: learning, calibration, measuring."""
    rejected: dict[str, int]
    """Lines, rows or records that hold no document, by reason."""
    measures: dict[str, float]


def check_sets(config: TrainClassifierConfig) -> None:
    """Check what can be told of the files without reading them. Raises InputError: one is absent or of an unknown
    format, or there is none."""
    if not config.positives:
        raise InputError("classifier.positives is empty: name files of good documents")
    for given in (config.positives, config.negatives):
        list_inputs(given, config.source)


def run(config: TrainClassifierConfig, context: StepContext) -> TrainClassifierOutputs:
    """Read the sets, train, calibrate and measure; a run that was stopped starts anew."""
    check_sets(config)
    counts = Counts()
    positives = _read("positives", config.positives, config, counts)
    if config.negatives:
        negatives = _read("negatives", config.negatives, config, counts)
    else:
        negatives = _least(config, read_documents(given_directory("data", config.data, "data") / "sample"))
    data = of_sets(positives, negatives)
    features = Features(config.word_grams, config.character_grams, config.bits, config.look_at)
    context.progress.update(0, 1, "classifiers", f"{len(data.documents)} documents")
    classifier, report = train(data, features, config.c, config.heldout_share, config.threshold)
    classifier.save(context.out / FOLDER)
    write_json(context.out / REPORT, report)
    measures = {name: float(value) for name, value in report.items() if isinstance(value, float)}
    context.tracker.metrics({f"classifier/{name}": value for name, value in measures.items()}, step=0)
    print(f"probability from {report['documents']}: "
          + ", ".join(f"{name} {value:.3f}" for name, value in measures.items()), flush=True)
    return TrainClassifierOutputs(classifier=FOLDER, documents=report["documents"], rejected=counts.rejected(),
                                  measures=measures)


def _read(field: str, inputs: Sequence[str], config: TrainClassifierConfig, counts: Counts) -> list[Document]:
    """Read documents of files, those of the least hashes where there are too many."""
    files, _ = list_inputs(inputs, config.source)
    own = Counts()
    documents = (item for file in files for item in read_file(file, config.source, own) if isinstance(item, Document))
    kept = _least(config, documents)
    if not kept:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in own.rejected().items())
        raise InputError(f"classifier.{field} holds no document{f' ({reasons})' if reasons else ''}: correct the "
                         "files, or classifier.source.text_field")
    counts.files |= {f"{field}/{label}": each for label, each in own.files.items()}
    return kept


def _least(config: TrainClassifierConfig, documents: Iterable[Document]) -> list[Document]:
    return nsmallest(config.most_documents, documents, key=lambda document: hash_of(document.id))


STEP = Step("train_classifier", TrainClassifierConfig, run, check=lambda parts, _: check_sets(parts[0].config),
            implied=True)

if __name__ == "__main__":
    main(STEP)
