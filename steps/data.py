"""The data of a run: the demo's from a seed, or documents and records for post-training from the user's own files."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from argosy.cleaning.records import CurationConfig, curate, draw
from argosy.config.schema import ADDED, Config, External, Externals, Rate, Seed
from argosy.data.jsonl import JsonlWriters
from argosy.data.records import KINDS as TRAINED
from argosy.data.records import Files, check_formats, count_channels, files_by_channel, read_files
from argosy.data.rejects import Tally, check_own, read_own
from argosy.data.sources import SourceConfig, list_inputs, write_inputs
from argosy.data.split import split_heldout
from argosy.demo.corpus import Demo, DemoConfig, digest
from argosy.demo.knowledge import leaked
from argosy.errors import InputError
from argosy.step.command import main
from argosy.step.contract import Step, StepContext
from argosy.store.files import write_json

Records = list[dict[str, Any]]
CONVERSATIONS = ("instructions.jsonl", "instructions_heldout.jsonl", "twin.jsonl")  # files that it writes
PREFERENCES = ("preferences.jsonl", "preferences_heldout.jsonl")
FEEDBACK = ("feedback.jsonl", "feedback_heldout.jsonl")  # where data.feedback names files
PROMPTS = ("prompts.jsonl",)
FILES = (*CONVERSATIONS, *PREFERENCES, *FEEDBACK, *PROMPTS, "facts.jsonl", "benchmark/en.jsonl", "benchmark/zh.jsonl")
KINDS = (*TRAINED, "benchmark")  # what the user's own files may replace
_SPLIT = ("instructions", "preferences", "feedback")  # kinds of which training does not see a share


class DataConfig(Config):
    """Config of the step: the origin of the data."""

    seed: Seed = 1
    """Seed of everything that the demo makes."""
    inputs: Externals = ()
    """The user's files or directories (.txt .md .jsonl .jsonl.gz .jsonl.zst .parquet); none: the demo's documents."""
    source: SourceConfig = SourceConfig()
    """Reading of the user's files."""
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
    mixture: Annotated[dict[str, Rate], ADDED] = Field({})
    """Times that each example of a channel is in the training files, such as {code: 2, chat: 0.5}; 1 where none is
    given."""
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

    @model_validator(mode="before")
    @classmethod
    def _name_files(cls, values: Any) -> Any:
        from argosy.evaluation.suite import with_named_files

        return with_named_files(values)

    def identity(self) -> dict[str, Any]:
        """Count the shipped English and code too, where documents are made of them."""
        return super().identity() | ({} if self.inputs else {"texts": digest()})


class DataOutputs(Config):
    """Counts of the records written."""

    documents: int
    channels: dict[str, int]
    instructions: int
    instructions_heldout: int
    preferences: int
    preferences_heldout: int
    prompts: int
    benchmark: dict[str, int]
    rejected: dict[str, int]
    """Unusable lines (rows of a table) of the user's files, by reason."""
    skipped: list[str]
    """What gave nothing: files of unknown formats, empty or below a name with `_`, and linked folders."""
    own: list[str]
    """Fields that named the user's own files; everything else is the demo's."""


def check_files(config: DataConfig) -> None:
    """Check all that can be told of the user's files without reading them.

    Raises InputError: one is absent, empty or of an unknown format, or a folder holds no readable file."""
    list_inputs(config.inputs, config.source.skip)
    channels: set[str] = set()
    for kind in TRAINED:
        for given, channel, _ in files_by_channel(kind, getattr(config, kind)):
            channels |= {given, channel}
    check_formats(config.formats, channels)
    if config.benchmark:
        check_own("benchmark", Path(config.benchmark))


def run(config: DataConfig, context: StepContext) -> DataOutputs:
    """Write all files; a run that was stopped starts anew, as they appear together at the end."""
    check_files(config)
    demo = Demo(config.demo, config.seed)
    rejects_at = str(context.out / "rejects")
    with JsonlWriters(context.out) as writers:
        tally, skipped = _write_documents(config, demo, writers, rejects_at)
        tables: dict[str, Any] = {kind: getattr(demo, kind)() for kind in KINDS
                                  if kind != "feedback" and not getattr(config, kind)}
        if config.benchmark:
            tables["benchmark"], read = read_own("benchmark", Path(config.benchmark), writers, rejects_at)
            tally.rejected.update(read.rejected)
        own, curation = _own_records(config, tables["benchmark"], writers, tally, rejects_at)
        _write_tables(config, tables | own, writers)
        writers.write_all("facts", demo.fact_records())
    if curation:
        write_json(context.out / "curation.json", curation)
    if tally.rejected:
        print(f"{tally.rejected.total()} lines could not be read and are in {rejects_at}: {dict(tally.rejected)}")
    if skipped:
        print(f"{len(skipped)} files or folders gave nothing (empty, linked, of unknown formats, or below a name "
              f"with _): {', '.join(skipped[:5])}" + (", ..." if skipped[5:] else ""))
    return _outputs(writers.counts, tally, skipped, [name for name in ("inputs", *KINDS) if getattr(config, name)])


def _own_records(config: DataConfig, items: Records, writers: JsonlWriters, tally: Tally,
                 rejects_at: str) -> tuple[dict[str, Records], dict[str, Any]]:
    """Read and clean the user's own records: by kind, and what there is to say of them."""
    named = {kind: getattr(config, kind) for kind in TRAINED if getattr(config, kind)}
    if not named:
        return {}, {}
    from evals.section import questions

    asked, unchecked = questions(config.suites, FILES)
    records: dict[str, Records] = {}
    report: dict[str, Any] = {}
    for kind, files in named.items():
        read, own = read_files(kind, files, config.formats, writers, rejects_at)
        tally.rejected.update(own.rejected)
        records[kind], found = curate(kind, read, config.curation, [*items, *asked], writers)
        report[kind] = found.to_json()
        gone = {name: reasons.total() for name, reasons in found.dropped.items()}
        print(f"{kind}: kept {len(records[kind])} of {len(read)} records" + (f"; dropped by {gone}" if gone else ""))
    _check_mixture(config, records)
    if unchecked:
        print(f"decontamination could not look for {', '.join(unchecked)}: {next(iter(unchecked.values()))}")
    return records, report | {"benchmarks_not_checked": unchecked}


def _check_mixture(config: DataConfig, records: dict[str, Records]) -> None:
    there = {channel for table in records.values() for channel in count_channels(table)}
    for channel in config.mixture:
        if channel not in there:
            names = ", ".join(sorted(there))
            raise InputError(f"data.mixture.{channel}: no record has this channel; there are: {names}")


def _write_documents(config: DataConfig, demo: Demo, writers: JsonlWriters, rejects_at: str) -> tuple[Tally, list[str]]:
    if config.inputs:
        return write_inputs(config.inputs, config.source, writers, rejects_at)
    for document in demo.documents():
        writers.write(f"documents/{document.channel}", document.to_record())
    if not any(name.startswith("documents/") for name in writers.counts):
        raise InputError("data.demo: all sizes are 0, so that there is no document; set one, or data.inputs")
    return Tally(), []


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


def _outputs(counts: dict[str, int], tally: Tally, skipped: list[str], own: list[str]) -> DataOutputs:
    channels = {n.removeprefix("documents/"): c for n, c in sorted(counts.items()) if n.startswith("documents/")}
    return DataOutputs(
        documents=sum(channels.values()), channels=channels, instructions=counts["instructions"],
        instructions_heldout=counts["instructions_heldout"], preferences=counts["preferences"],
        preferences_heldout=counts["preferences_heldout"], prompts=counts["prompts"],
        benchmark={lang: counts[f"benchmark/{lang}"] for lang in ("en", "zh")},
        rejected=dict(sorted(tally.rejected.items())), skipped=skipped, own=own
    )


STEP = Step("data", DataConfig, run, version=3)

if __name__ == "__main__":
    main(STEP)
