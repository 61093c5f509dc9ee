"""Cleaning of documents: each passes the filters into its channel's file, or ends with a reason among the rejects."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny

from argosy.cleaning.corpus import Report, clean_corpus, contamination, sample_documents
from argosy.cleaning.filter import FilterConfig, Resources
from argosy.cleaning.filters import make_filters, parse_filters
from argosy.config.schema import Config, Externals, Upstream
from argosy.data.jsonl import JsonlWriters, read_documents, read_jsonl
from argosy.errors import InputError
from argosy.step.command import main
from argosy.step.contract import Step, StepContext
from argosy.store.files import write_json
from argosy.store.step_files import given_directory, read_outputs

# Repair before judging, cheap before costly, and duplicates last: of two copies the repaired one may be the later.
DEFAULT_FILTERS: Any = (
    "unicode",
    "boilerplate",
    "language",
    "gopher_quality",
    # Documentation and lists of facts repeat themselves more than the web pages that the paper's thresholds are for.
    {
        "name": "gopher_repetition", "max_line_share": 0.45, "max_paragraph_share": 0.45,
        "max_line_character_share": 0.40, "max_paragraph_character_share": 0.40,
        "top_ngrams": {2: 0.25, 3: 0.25, 4: 0.25},
        "duplicate_ngrams": {5: 0.40, 6: 0.38, 7: 0.36, 8: 0.34, 9: 0.32, 10: 0.30}
    },
    "gibberish",
    "toxicity",
    "decontamination",
    "pii",
    "exact_dedup",
    "near_dedup",
)


class CleanConfig(Config):
    """Config of the step."""

    data: Upstream = ""
    """Directory of a data step."""
    filters: Annotated[
        tuple[SerializeAsAny[FilterConfig], ...], BeforeValidator(parse_filters), Field(validate_default=True)
    ] = DEFAULT_FILTERS
    """Names, or objects with `name` and thresholds, in the order in which they run."""
    word_lists: Externals = ()
    """Files with more words for `toxicity`, one a line."""
    learn_documents: Annotated[int, Field(ge=0)] = 3000
    """Sample of documents from which filters learn what is normal."""
    samples_per_reason: Annotated[int, Field(ge=0)] = 3
    """Dropped documents that the report shows by reason."""


class CleanOutputs(Config):
    """Paths are relative to the step's directory; counts are of documents and UTF-8 bytes."""

    documents: str
    rejects: str
    report: str
    documents_in: int
    documents_out: int
    bytes_in: int
    bytes_out: int
    dropped: dict[str, int]
    lost: dict[str, dict[str, float]]
    """Share of a channel's documents that each filter dropped."""


def run(config: CleanConfig, context: StepContext) -> CleanOutputs:
    """Clean all documents; a run that was stopped starts anew, as the files appear together at the end."""
    data = given_directory("data", config.data, "data")
    source, total = data / "documents", int(read_outputs(data, "data")["documents"])
    items = [item for path in sorted((data / "benchmark").glob("*.jsonl")) for item in read_jsonl(path)]
    words = [word for path in config.word_lists for word in _words(Path(path))]
    learnt = sample_documents(read_documents(source), config.learn_documents)
    filters = make_filters(config.filters, Resources(learnt, items, words))
    report = Report(config.samples_per_reason)
    with JsonlWriters(context.out) as writers:
        for item in config.filters:
            writers.open(f"rejects/{item.name}")
        for done in clean_corpus(read_documents(source), filters, writers, report):
            context.progress.update(done, total, "documents")
    found = {f.config.name: dict(sorted(f.counts.items())) for f in filters if f.counts}
    tainted = contamination(data, items)
    write_json(context.out / "report.json", report.to_json() | {"found": found, "contamination": tainted})
    outputs = _outputs(report)
    if outputs.documents_out == 0:
        worst = max(outputs.dropped, key=lambda name: outputs.dropped[name], default="")
        raise InputError(f"cleaning dropped all {outputs.documents_in} documents, most by {worst!r}: see "
                         f"{context.out / 'rejects'} and set its thresholds in clean.filters, or leave it out")
    print(_summary(outputs))
    metrics = {f"clean/dropped/{name}": float(count) for name, count in outputs.dropped.items()}
    context.tracker.metrics(metrics | {"clean/documents_out": float(outputs.documents_out)}, step=0)
    return outputs


def _summary(outputs: CleanOutputs) -> str:
    """Say how much was kept and which filters dropped most: for the log."""
    most = sorted(outputs.dropped.items(), key=lambda item: -item[1])[:3]
    dropped = ", ".join(f"{name} ({count})" for name, count in most if count)
    kept = f"kept {outputs.documents_out} of {outputs.documents_in} documents"
    return f"{kept}, {outputs.bytes_out} of {outputs.bytes_in} bytes; dropped most by: {dropped or 'none'}"


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"clean.word_lists: {path} cannot be read ({error}); expected UTF-8, a word a line") from None


def _outputs(report: Report) -> CleanOutputs:
    total, dropped = Counter[str](), Counter[str]()
    lost = {}
    for name, channel in sorted(report.channels.items()):
        total.update(channel.counts)
        counts = {name: reasons.total() for name, reasons in channel.dropped.items()}
        dropped.update(counts)
        lost[name] = {name: round(count / channel.counts["in"], 4) for name, count in sorted(counts.items())}
    return CleanOutputs(
        documents="documents", rejects="rejects", report="report.json", documents_in=total["in"],
        documents_out=total["out"], bytes_in=total["bytes_in"], bytes_out=total["bytes_out"],
        dropped=dict(sorted(dropped.items())), lost=lost
    )


STEP = Step("clean", CleanConfig, run, version=3)

if __name__ == "__main__":
    main(STEP)
