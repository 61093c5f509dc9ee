"""Cleaning: by scores and keys of all shards it is decided which documents are kept, and why the others go."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from argosy.core.config.explain import likely
from argosy.core.config.schema import ADDED, RUNTIME, Config, Externals, Upstream, Upstreams
from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Planned, Step, StepContext
from argosy.core.store.files import read_json, write_json
from argosy.core.store.step_files import given_directory
from argosy.corpus.cleaning.dedup.duplicates import DedupConfig
from argosy.corpus.cleaning.dedup.external import Workspace
from argosy.corpus.cleaning.dedup.index import INDEX
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters import Filters, make_filters
from argosy.corpus.cleaning.gathering import decide, write_indexes
from argosy.corpus.cleaning.kept import REPORT, write_decisions
from argosy.corpus.cleaning.report.making import Made, ReportMaker
from argosy.corpus.cleaning.scored import ScoredCorpus, open_shards
from argosy.corpus.cleaning.scoring import labels
from argosy.corpus.cleaning.tiers import TierConfig, check_tiers, tier_channels
from argosy.corpus.data.counts import Counts, gather
from argosy.corpus.data.sources import RESERVED_CHANNEL, check_channels

DEFAULT_FILTERS: Any = ("argosy",)
WORK = "work"  # what deduplication sorts on disk
PAGE = "report.html"
COUNTS = "counts.json"  # of a score step: what it read


class CleanConfig(Config):
    """Config of the step."""

    data: Upstream = ""
    """Directory of a data step."""
    scored: Upstreams = ()
    """Directories of the score steps, a shard each, in the order of the corpus."""
    measured: Upstreams = ()
    """Directories of the measure steps, of the same shards, where filters ask models of torch."""
    filters: Filters = DEFAULT_FILTERS
    """Names or objects of `name` and thresholds, in order; or a recipe: argosy, gopher, c4, fineweb, chinese, code."""
    word_lists: Externals = ()
    """Files with more words for `toxicity`, one a line."""
    shards: Annotated[int, RUNTIME, Field(ge=1, le=100_000)] = 1
    """Parts that read, repair and score the files side by side; no result depends on their number."""
    model_threads: Annotated[int, RUNTIME, Field(ge=1)] = 1
    """Threads of each part whose filters ask models of torch (perplexity, edu_quality); they decide the last digits of
    those scores."""
    model_dtype: Annotated[Literal["auto", "weights", "float32", "bfloat16"], RUNTIME] = "auto"
    """Precision of the language models that filters ask; weights: theirs; auto: theirs, or float32 for all where the
    parts have no GPU and the CPU that plans is slow with one's. The parts' digests count it."""
    against: Externals = ()
    """Directories of clean steps of earlier corpora: copies of their documents go."""
    memory_mb: Annotated[int, RUNTIME, Field(ge=64)] = 1024
    """Memory of deduplication; what needs more is sorted on disk."""
    index: bool = True
    """Keep the keys of the documents that are kept, so that a later corpus can be cleaned `against` this one."""
    samples_per_reason: Annotated[int, Field(ge=0)] = 3
    """Dropped documents that the report shows by reason."""
    tiers: Annotated[tuple[TierConfig, ...], ADDED] = ()
    """Channels by quality: documents within limits of a score become a channel CHANNEL.NAME, which mixtures may weigh;
    of several tiers the first."""

    def channels(self, of_data: set[str]) -> set[str]:
        """Name the channels of the kept documents, from those of the data. Raises InputError: a tier names others."""
        return of_data | tier_channels(self.tiers, of_data)

    def check_fields(self) -> None:
        known = labels(self.filters)
        check_tiers(self.tiers, known)
        for at, one in enumerate(self.filters):
            score = one.score if isinstance(one, DedupConfig) else ""
            if score and (label := score.partition(".")[0]) not in known:
                raise ValueError(f"filters[{at}].score={score!r}: there is no filter {label!r} in filters; "
                                 f"{likely(label, known)}")


class CleanOutputs(Config):
    """Paths are relative to the step's directory; counts are of documents and UTF-8 bytes."""

    decisions: str
    report: str
    shards: int
    documents_in: int
    documents_out: int
    bytes_in: int
    bytes_out: int
    dropped: dict[str, int]
    lost: dict[str, dict[str, float]]
    """Share of a channel's documents that each filter dropped."""
    rejected: dict[str, int]
    """Lines, rows or records of the inputs that hold no document, by reason."""
    damaged: dict[str, str]
    """Files that could not be read to their end, and why."""
    notes: tuple[str, ...] = ()
    """Notes for the user: tiers without a document, benchmark items that are only marked."""


def run(config: CleanConfig, context: StepContext) -> CleanOutputs:
    """Decide about all documents, which takes seconds: their texts are not read again, but for samples."""
    directories = [given_directory("scored", each, "score") for each in config.scored]
    if not directories:
        raise InputError("clean.scored is empty: name the directories of the score steps, in the order of the corpus")
    counts = gather(Counts.from_json(read_json(directory / COUNTS)) for directory in directories)
    counts.check("data.inputs", f"{directories[0]}/rejects")
    measured = [given_directory("measured", each, "measure") for each in config.measured]
    work = Workspace(context.out / WORK, config.memory_mb)
    corpus = ScoredCorpus(open_shards(directories, measured), work)
    filters = make_filters(config.filters, Resources())
    decisions = decide(filters, corpus, work, [Path(each) for each in config.against], context.progress)
    data = Path(config.data) if config.data else None
    maker = ReportMaker(filters, corpus, decisions, data, config.tiers, config.samples_per_reason)
    made = maker.make(context.out, work, context.progress)
    write_decisions(context.out, decisions, corpus.firsts.tolist())
    if config.index:
        write_indexes(filters, corpus, decisions.kept, context.out)
    shutil.rmtree(context.out / WORK, ignore_errors=True)
    write_json(context.out / REPORT, made.report)
    _show(read_json(context.out / REPORT), context)
    outputs = _outputs(made, counts, len(corpus.shards))
    if outputs.documents_out == 0:
        worst = max(outputs.dropped, key=lambda name: outputs.dropped[name], default="")
        raise InputError(f"cleaning dropped all {outputs.documents_in} documents, most by {worst!r}: see the samples "
                         f"in {context.out / REPORT} and set its thresholds in clean.filters, or leave it out")
    most = sorted(outputs.dropped.items(), key=lambda item: -item[1])[:3]
    said = ", ".join(f"{name} ({count})" for name, count in most if count)
    print(f"kept {outputs.documents_out} of {outputs.documents_in} documents, {outputs.bytes_out} of "
          f"{outputs.bytes_in} bytes; dropped most by: {said or 'none'}")
    metrics = {f"clean/dropped/{name}": float(count) for name, count in outputs.dropped.items()}
    metrics |= {f"clean/tiers/{name}": float(counts["out"]) for name, counts in made.funnel.tiers.items()}
    for name, tier in made.funnel.tiers.items():
        print(f"channel {name}: {tier['out']} documents of {tier['of']}, {tier['bytes_out']} bytes")
    for note in made.notes:
        print(note)
    context.tracker.metrics(metrics | {"clean/documents_out": float(outputs.documents_out)}, step=0)
    return outputs


def _show(report: Mapping[str, Any], context: StepContext) -> None:
    """Write the page, and send it to MLflow with the shares of each channel that filters dropped."""
    from argosy.evidence.report.cleaning import cleaning_page

    (context.out / PAGE).write_text(cleaning_page(report, os.environ.get("ARGOSY_LINE", "")), encoding="utf-8")
    context.tracker.artifact(context.out / PAGE)
    context.tracker.artifact(context.out / REPORT)
    context.tracker.metrics({
        f"clean/{name}/kept_share": counts["out"] / counts["in"]
        for name, counts in report["channels"].items() if counts["in"]})


def _outputs(made: Made, counts: Counts, shards: int) -> CleanOutputs:
    funnel, total = made.funnel, made.funnel.totals()
    return CleanOutputs(
        decisions="decisions", report=REPORT, shards=shards, documents_in=total["in"], documents_out=total["out"],
        bytes_in=total["bytes_in"], bytes_out=total["bytes_out"], dropped=funnel.dropped(), lost=funnel.lost(),
        rejected=counts.rejected(), damaged=counts.damaged(), notes=tuple(made.notes))


def check(parts: Sequence[Planned], nodes: Sequence[Planned]) -> None:
    """Check that earlier corpora have left an index, and that filters and tiers name channels that there are. Raises
    InputError: not so."""
    [node] = parts
    config = node.config
    for at, directory in enumerate(config.against):
        if not (Path(directory) / INDEX).is_dir():
            raise InputError(f"clean.against[{at}]: {directory} has no folder {INDEX}: give the directory of a "
                             "finished clean step (runs/clean-...) with clean.index=true and the same deduplicating "
                             "filters")
    named = {f"clean.filters[{at}].{field}": set(getattr(one, field, ())) - {"code"}  # which recipes skip anyway
             for at, one in enumerate(config.filters) for field in ("priorities", "skip_channels")}
    if any(named.values()) or config.tiers:
        channels = node.upstream["data"][0].config.channels
        for where, some in named.items() if channels is not None else ():
            check_channels(some, channels | {RESERVED_CHANNEL}, where)
        if channels is not None:
            config.channels(channels)


STEP = Step("clean", CleanConfig, run, version=6, check=check)

if __name__ == "__main__":
    main(STEP)
