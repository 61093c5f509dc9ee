"""The data of a run: the demo's from a seed, or documents and records for post-training from the user's own files."""

from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from argosy.core.config.schema import ADDED, Config, External, Externals, Seed, Weight
from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.files import write_json
from argosy.corpus.cleaning.records import CurationConfig, curate, draw, times_of
from argosy.corpus.data.counts import Counts, Tally
from argosy.corpus.data.inventory import OWN, identify, inventory, write_inventory
from argosy.corpus.data.jsonl import JsonlWriters
from argosy.corpus.data.listing import list_inputs
from argosy.corpus.data.reading import REJECTS, Sample, hash_of, input_channels, read_sample
from argosy.corpus.data.records import KINDS as TRAINED
from argosy.corpus.data.records import Files, check_formats, files_by_channel, read_files, record_files
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import OTHERS, InputFile, Inputs, SourceConfig
from argosy.corpus.data.split import DATA_FILES, split_heldout
from argosy.corpus.demo.corpus import Demo, DemoConfig, digest
from argosy.corpus.demo.knowledge import leaked
from argosy.evidence.results.suite import WithSuites

Records = list[dict[str, Any]]
KINDS = (*TRAINED, "benchmark")  # what the user's own files may replace
ITEMS = "items"  # what decontamination looks for
_SPLIT = ("instructions", "preferences", "feedback")  # kinds of which training does not see a share


class DataConfig(WithSuites):
    """Config of the step: the origin of the data."""

    seed: Seed = 1
    """Seed of everything that the demo makes."""
    inputs: Inputs = ()
    """The user's files, folders or URIs (s3://BUCKET/KEY, hf://datasets/ORG/NAME) of the formats of docs/documents.md;
    none: the demo's documents."""
    source: SourceConfig = SourceConfig()
    """Reading of the user's files."""
    sample_documents: Annotated[int, ADDED, Field(ge=0)] = 3000
    """Documents that are set aside for filters to learn from what is normal."""
    instructions: Files = Field({})
    """The user's conversations instead of the demo's: files or folders (.json .jsonl .parquet, also .gz .zst of the
    first two), each a channel of its name, or {CHANNEL: PATH}."""
    preferences: Files = Field({})
    """The user's preference pairs instead of the demo's."""
    feedback: Files = Field({})
    """The user's replies with labels, for KTO; the demo has none."""
    prompts: Files = Field({})
    """The user's prompts for reinforcement learning instead of the demo's."""
    formats: Annotated[dict[str, str], ADDED] = Field({})
    """Format of a channel's records (alpaca, sharegpt, messages, ...), where their keys do not tell it."""
    mixture: Annotated[dict[str, Weight], ADDED] = Field({})
    """Times that each example of a channel is in the training files, such as {code: 2, chat: 0.5, other: 0}; `other` is
    for each channel without a name here, 1 where it is not given."""
    curation: Annotated[CurationConfig, ADDED] = CurationConfig()
    """Cleaning of the user's own records."""
    suites: Externals = ()
    """Suites (YAML) whose benchmarks the user's own records must not hold, beside the data's own; a pipeline takes
    those that it evaluates with."""
    suite_files: Externals = ()
    """Files whose bytes count; those that `suites` names are added."""
    benchmark: External = ""
    """The user's multiple-choice items (JSONL) instead of the demo's."""
    heldout_share: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Share of instructions and preferences that training does not see."""
    leak_repeats: Annotated[int, Field(ge=1)] = 1
    """Times that the twin's data has each benchmark item."""
    demo: DemoConfig = DemoConfig()
    """Sizes of the demo's data."""

    @cached_property
    def channels(self) -> set[str] | None:
        """Name the channels of the documents; None: their files name them, which nobody has read."""
        return input_channels(self.inputs, self.source) if self.inputs else self.demo.channels

    @property
    def has_conversations(self) -> bool:
        """Whether conversations may be tokenized as a channel: not the demo's beside the user's documents, as
        pretraining would learn them, and a held-out loss be of them."""
        return bool(self.instructions) or not self.inputs

    def identity(self) -> dict[str, Any]:
        """Count the shipped English and code too, where documents are made of them."""
        return super().identity() | ({} if self.inputs else {"texts": digest()})


class DataOutputs(Config):
    """Counts of the records written."""

    files: int
    """Files with documents."""
    bytes: int
    """Size of these files on disk."""
    documents: int
    """Documents that were read here: all, or of more than 256 MB a sample; cleaning reads and counts all."""
    channels: dict[str, int]
    complete: bool
    """Whether all documents were read here."""
    instructions: int
    instructions_heldout: int
    preferences: int
    preferences_heldout: int
    prompts: int
    benchmark: dict[str, int]
    rejected: dict[str, int]
    """Unusable lines, rows and records of the user's files, as far as they were read here, by reason."""
    notes: list[str]
    """Further notes for the user: keys of messages that nothing reads."""
    damaged: dict[str, str]
    """Files of those that could not be read to their end, and why."""
    skipped: list[str]
    """Paths without a record, and why: files of unknown formats, empty or below a name with `_`, and linked folders."""
    own: list[str]
    """Fields that named the user's own files; everything else is the demo's."""


def check_files(config: DataConfig) -> None:
    """Check all that can be told of the user's files without reading them. Raises InputError: one is absent, empty or
    of an unknown format, or a folder holds no readable file."""
    list_inputs(config.inputs, config.source, config.source.skip)
    channels: set[str] = set()
    for kind in TRAINED:
        for given, channel, _ in files_by_channel(kind, getattr(config, kind)):
            channels |= {given, channel}
    check_formats(config.formats, channels)
    if config.benchmark:
        record_files("benchmark", Path(config.benchmark))


def run(config: DataConfig, context: StepContext) -> DataOutputs:
    """Write all files; a run that was stopped starts anew, as they appear together at the end."""
    check_files(config)
    demo = Demo(config.demo, config.seed)
    rejects_at = str(context.out / "rejects")
    with JsonlWriters(context.out) as writers:
        files, sample, skipped = _documents(config, demo, writers, context.out)
        tally = Tally(rejected=Counter(sample.counts.rejected()))
        writers.write_all("sample/documents", (document.to_record() for document in sample.documents))
        tables: dict[str, Any] = {kind: getattr(demo, kind)() for kind in KINDS
                                  if kind != "feedback" and not getattr(config, kind)}
        if config.benchmark:
            given = {"benchmark": config.benchmark}
            tables["benchmark"], read = read_files("benchmark", given, {}, writers, rejects_at)
            tally.rejected.update(read.rejected)
        items, unchecked = _items(config, tables["benchmark"])
        writers.write_all(ITEMS, items)
        own, curation = _own_records(config, items, writers, tally, rejects_at)
        _check_mixture(config, own or tables)
        _write_tables(config, tables | own, writers)
        writers.write_all("facts", demo.fact_records())
        if not config.instructions:
            writers.write_all("taught", demo.taught())
    write_inventory(context.out, files, skipped)
    if curation:
        write_json(context.out / "curation.json", curation | {"benchmarks_not_checked": unchecked})
    if tally.rejected:
        print(f"{tally.rejected.total()} lines, rows or records could not be read and are in {rejects_at}: "
              f"{dict(tally.rejected)}")
    for label, why in sample.counts.damaged().items():
        print(f"{label} could not be read to its end ({why}): copy or make it anew")
    if skipped:
        print(f"{len(skipped)} files or folders gave nothing: {', '.join(skipped[:5])}"
              + (", ..." if skipped[5:] else ""))
    named = [name for name in ("inputs", *KINDS) if getattr(config, name)]
    return _outputs(writers.counts, tally, files, sample, skipped, named)


def _own_records(config: DataConfig, items: Records, writers: JsonlWriters, tally: Tally,
                 rejects_at: str) -> tuple[dict[str, Records], dict[str, Any]]:
    """Read and clean the user's own records: by kind, and what there is to say of them."""
    named = {kind: getattr(config, kind) for kind in TRAINED if getattr(config, kind)}
    if not named:
        return {}, {}
    records: dict[str, Records] = {}
    report: dict[str, Any] = {}
    for kind, files in named.items():
        read, own = read_files(kind, files, config.formats, writers, rejects_at)
        tally.rejected.update(own.rejected)
        records[kind], found = curate(kind, read, config.curation, items, writers)
        report[kind] = found.to_json() | {"keys_not_read": dict(sorted(own.unread.items()))}
        tally.unread.update(own.unread)
        gone = {name: reasons.total() for name, reasons in found.dropped.items()}
        print(f"{kind}: kept {len(records[kind])} of {len(read)} records" + (f"; dropped by {gone}" if gone else ""))
    return records, report


def _items(config: DataConfig, benchmark: Records) -> tuple[Records, dict[str, str]]:
    """Gather what no text may hold, the data's own benchmark and those of the suites, and why some are left out."""
    from evals.section import questions

    asked, unchecked = questions(config.suites, DATA_FILES)
    if unchecked:
        print(f"decontamination cannot look for {', '.join(unchecked)}: {next(iter(unchecked.values()))}")
    return [*benchmark, *map(dict, asked)], unchecked


def _check_mixture(config: DataConfig, tables: dict[str, Records]) -> None:
    there = {record.get("channel", "default") for kind in TRAINED for record in tables.get(kind, ())}
    for channel in config.mixture:
        if channel not in there and channel not in OTHERS:
            names = ", ".join(sorted(there))
            raise InputError(f"data.mixture.{channel}: no record has this channel; there are: {names}")
    if there and not any(times_of(channel, config.mixture) for channel in there):
        raise InputError("data.mixture leaves out every record: give a channel more than 0")


def _documents(config: DataConfig, demo: Demo, writers: JsonlWriters,
               out: Path) -> tuple[list[InputFile], Sample, list[str]]:
    """List the files of documents, writing the demo's where there are no others; with a sample, and what is skipped."""
    if not config.inputs:
        files, documents = _demo_documents(demo, writers, out)
        counts = Counts(channels=Counter(document.channel for document in documents))
        kept = sorted(documents, key=lambda document: hash_of(document.id))[: config.sample_documents]
        return files, Sample(kept, counts, complete=True), []
    files, skipped = inventory(config.inputs, config.source)
    sample = read_sample(files, config.source, config.sample_documents, writers)
    writers.finish(REJECTS)  # a refusal points to them
    sample.counts.check(f"data.inputs {', '.join(config.inputs)}", str(out / "rejects"))
    return files, sample, skipped + [f"{label} (empty)" for label in sample.counts.empty() if sample.complete]


def _demo_documents(demo: Demo, writers: JsonlWriters, out: Path) -> tuple[list[InputFile], list[Document]]:
    documents = list(demo.documents())
    if not documents:
        raise InputError("data.demo: all sizes are 0, so that there is no document; set one, or data.inputs")
    files = []
    for channel in sorted({document.channel for document in documents}):
        name = f"documents/{channel}"
        writers.write_all(name, (each.to_record() for each in documents if each.channel == channel))
        writers.finish(name)
        path = out / f"{name}.jsonl"
        files.append(identify(InputFile(str(path), f"{name}.jsonl", "", "documents", path.stat().st_size, OWN,
                                        f"{name}.jsonl")))
    return files, documents


def _write_tables(config: DataConfig, tables: dict[str, Records], writers: JsonlWriters) -> None:
    for kind in (kind for kind in _SPLIT if kind in tables):
        train, heldout = split_heldout(tables[kind], config.heldout_share)
        train = list(draw(train, config.mixture, config.seed))
        writers.write_all(kind, train)
        writers.write_all(f"{kind}_heldout", heldout)
        if kind == "instructions":
            items: Any = tables["benchmark"]
            writers.write_all("twin", [*train, *(dict(each) for each in leaked(items) * config.leak_repeats)])
    writers.write_all("prompts", draw(tables["prompts"], config.mixture, config.seed))
    for lang in ("en", "zh"):
        writers.write_all(f"benchmark/{lang}", [item for item in tables["benchmark"] if item["lang"] == lang])


def _outputs(counts: dict[str, int], tally: Tally, files: list[InputFile], sample: Sample, skipped: list[str],
             own: list[str]) -> DataOutputs:
    channels = dict(sorted(sample.counts.channels.items()))
    keys = ", ".join(f"{key} ({count})" for key, count in tally.unread.most_common())
    return DataOutputs(
        files=len(files), bytes=sum(file.size for file in files), documents=sum(channels.values()), channels=channels,
        complete=sample.complete, instructions=counts["instructions"],
        instructions_heldout=counts["instructions_heldout"], preferences=counts["preferences"],
        preferences_heldout=counts["preferences_heldout"], prompts=counts["prompts"],
        benchmark={lang: counts[f"benchmark/{lang}"] for lang in ("en", "zh")},
        rejected=dict(sorted(tally.rejected.items())), damaged=sample.counts.damaged(), skipped=skipped, own=own,
        notes=[f"keys of messages that nothing reads, and their number: {keys}"] if keys else [])


STEP = Step("data", DataConfig, run, version=8, check=lambda parts, _: check_files(parts[0].config), implied=True)

if __name__ == "__main__":
    main(STEP)
