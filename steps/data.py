"""The data of a run: the demo's from a seed, or documents from the user's own files."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from argosy.config.schema import Config, External, Externals, Seed
from argosy.data.jsonl import JsonlWriters
from argosy.data.rejects import Tally, check_own, read_own
from argosy.data.sources import SourceConfig, list_inputs, write_inputs
from argosy.data.split import split_heldout
from argosy.demo.corpus import Demo, DemoConfig, digest
from argosy.demo.knowledge import leaked
from argosy.errors import InputError
from argosy.step.command import main
from argosy.step.contract import Step, StepContext

Records = list[dict[str, Any]]
CONVERSATIONS = ("instructions.jsonl", "instructions_heldout.jsonl", "twin.jsonl")  # files that it writes
PREFERENCES = ("preferences.jsonl", "preferences_heldout.jsonl")
PROMPTS = ("prompts.jsonl",)
FILES = (*CONVERSATIONS, *PREFERENCES, *PROMPTS, "facts.jsonl", "benchmark/en.jsonl", "benchmark/zh.jsonl")
KINDS = ("instructions", "preferences", "prompts", "benchmark")  # what the user's own files may replace


class DataConfig(Config):
    """Config of the step: the origin of the data."""

    seed: Seed = 1
    """Seed of everything that the demo makes."""
    inputs: Externals = ()
    """The user's files or directories (.txt .md .jsonl .jsonl.gz .jsonl.zst .parquet); none: the demo's documents."""
    source: SourceConfig = SourceConfig()
    """Reading of the user's files."""
    instructions: External = ""
    """The user's conversations (JSONL) instead of the demo's."""
    preferences: External = ""
    """The user's preference pairs (JSONL) instead of the demo's."""
    prompts: External = ""
    """The user's prompts for reinforcement learning (JSONL) instead of the demo's."""
    benchmark: External = ""
    """The user's multiple-choice items (JSONL) instead of the demo's."""
    heldout_share: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Share of instructions and preferences that training does not see."""
    leak_repeats: Annotated[int, Field(ge=1)] = 1
    """Times that the twin's data has each benchmark item."""
    demo: DemoConfig = DemoConfig()
    """Sizes of the demo's data."""

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
    for kind in KINDS:
        if own := getattr(config, kind):
            check_own(kind, Path(own))


def run(config: DataConfig, context: StepContext) -> DataOutputs:
    """Write all files; a run that was stopped starts anew, as they appear together at the end."""
    check_files(config)
    demo = Demo(config.demo, config.seed)
    rejects_at = str(context.out / "rejects")
    with JsonlWriters(context.out) as writers:
        tally, skipped = _write_documents(config, demo, writers, rejects_at)
        tables: dict[str, Records] = {}
        for kind in KINDS:
            if own := getattr(config, kind):
                tables[kind], read = read_own(kind, Path(own), writers, rejects_at)
                tally.rejected.update(read.rejected)
            else:
                tables[kind] = getattr(demo, kind)()
        _write_tables(config, tables, writers)
        writers.write_all("facts", demo.fact_records())
    if tally.rejected:
        print(f"{tally.rejected.total()} lines could not be read and are in {rejects_at}: {dict(tally.rejected)}")
    if skipped:
        print(f"{len(skipped)} files or folders gave nothing (empty, linked, of unknown formats, or below a name "
              f"with _): {', '.join(skipped[:5])}" + (", ..." if skipped[5:] else ""))
    return _outputs(writers.counts, tally, skipped, [name for name in ("inputs", *KINDS) if getattr(config, name)])


def _write_documents(config: DataConfig, demo: Demo, writers: JsonlWriters, rejects_at: str) -> tuple[Tally, list[str]]:
    if config.inputs:
        return write_inputs(config.inputs, config.source, writers, rejects_at)
    for document in demo.documents():
        writers.write(f"documents/{document.channel}", document.to_record())
    if not any(name.startswith("documents/") for name in writers.counts):
        raise InputError("data.demo: all sizes are 0, so that there is no document; set one, or data.inputs")
    return Tally(), []


def _write_tables(config: DataConfig, tables: dict[str, Records], writers: JsonlWriters) -> None:
    for kind in ("instructions", "preferences"):
        train, heldout = split_heldout(tables[kind], config.heldout_share)
        writers.write_all(kind, train)
        writers.write_all(f"{kind}_heldout", heldout)
        if kind == "instructions":
            items: Any = tables["benchmark"]
            writers.write_all("twin", [*train, *(dict(each) for each in leaked(items) * config.leak_repeats)])
    writers.write_all("prompts", tables["prompts"])
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
