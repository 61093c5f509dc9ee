"""Make the data of a run: the demo's from a seed, or documents from the user's own files."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any

from pydantic import Field

from argosy.config import Config, External, Externals, Seed
from argosy.corpus.demo import Demo, DemoConfig
from argosy.corpus.inputs import write_inputs
from argosy.corpus.overrides import KINDS, read_override
from argosy.documents import JsonlWriters
from argosy.documents.rejects import Tally
from argosy.documents.source import SourceConfig
from argosy.errors import InputError
from argosy.step import Step, StepContext

Records = list[dict[str, Any]]


class DataConfig(Config):
    """Where the data comes from.

    Attributes:
        seed: of everything that the demo makes.
        inputs: the user's files or directories (.txt .md .jsonl .jsonl.gz .jsonl.zst .parquet); none: the demo's.
        source: how the user's files become documents.
        instructions, preferences, prompts, benchmark: the user's own JSONL instead of the demo's.
        heldout_share: of instructions and preferences that training does not see.
        leak_repeats: times that the twin's data has each benchmark item.
        demo: sizes of the demo's data.
    """

    seed: Seed = 1
    inputs: Externals = ()
    source: SourceConfig = SourceConfig()
    instructions: External = ""
    preferences: External = ""
    prompts: External = ""
    benchmark: External = ""
    heldout_share: Annotated[float, Field(gt=0, lt=1)] = 0.05
    leak_repeats: Annotated[int, Field(ge=1)] = 1
    demo: DemoConfig = DemoConfig()

    def identity(self) -> dict[str, Any]:
        """The demo's English and code are the sources of the standard library, which each Python has its own of."""
        own = {} if self.inputs else {"python": platform.python_version()}
        return super().identity() | own


class DataOutputs(Config):
    """Counts of what was written; `rejected` by reason, `skipped` are files of unknown formats, `own`: the fields
    that named the user's own files, where everything else is the demo's."""

    documents: int
    channels: dict[str, int]
    instructions: int
    instructions_heldout: int
    preferences: int
    preferences_heldout: int
    prompts: int
    benchmark: dict[str, int]
    rejected: dict[str, int]
    skipped: list[str]
    own: list[str]


def run(config: DataConfig, context: StepContext) -> DataOutputs:
    """Starts anew when it is run again: the files appear together at the end."""
    demo = Demo(config.demo, config.seed)
    rejects_at = str(context.out / "rejects")
    with JsonlWriters(context.out) as writers:
        tally, skipped = _write_documents(config, demo, writers, rejects_at)
        tables: dict[str, Records] = {}
        for kind in KINDS:
            records, read = read_override(kind, getattr(config, kind), writers, rejects_at, getattr(demo, kind))
            tables[kind] = records
            tally.rejected.update(read.rejected)
        _write_tables(config, tables, writers)
        writers.write_all("facts", demo.fact_records())
    if tally.rejected:
        print(f"{tally.rejected.total()} records could not be read and are in {rejects_at}: {dict(tally.rejected)}")
    return _outputs(writers.counts, tally, skipped, [name for name in ("inputs", *KINDS) if getattr(config, name)])


def _write_documents(config: DataConfig, demo: Demo, writers: JsonlWriters, rejects_at: str) -> tuple[Tally, list[str]]:
    if config.inputs:
        return write_inputs(config.inputs, config.source, writers, rejects_at)
    for record in demo.documents():
        writers.write(f"documents/{record['channel']}", record)
    if not any(name.startswith("documents/") for name in writers.counts):
        raise InputError("data.demo: all sizes are 0, so that there is no document; set one, or data.inputs")
    return Tally(), []


def _write_tables(config: DataConfig, tables: dict[str, Records], writers: JsonlWriters) -> None:
    from argosy.demo.corpus.benchmark import leaked

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


def split_heldout(records: Sequence[dict[str, Any]], share: float) -> tuple[Records, Records]:
    """(training, held-out): `share` of the records, at least one, by the hash of their prompt.

    The same prompt is never on both sides. A single prompt stays in training.
    """
    keys = [_prompt_key(record) for record in records]
    heldout: set[bytes] = set()
    wanted, taken = max(1, round(share * len(records))), 0
    sizes = Counter(keys)
    for key in sorted(sizes)[: len(sizes) - 1]:
        if taken >= wanted:
            break
        heldout.add(key)
        taken += sizes[key]
    pairs = list(zip(keys, records, strict=True))
    return [r for key, r in pairs if key not in heldout], [r for key, r in pairs if key in heldout]


def _prompt_key(record: dict[str, Any]) -> bytes:
    messages = record.get("prompt") or record["messages"]
    asked = next((m["content"] for m in messages if m["role"] == "user"), messages[0]["content"])
    return blake2b(str(asked).encode(errors="surrogatepass"), digest_size=16).digest()


def _outputs(counts: dict[str, int], tally: Tally, skipped: list[str], own: list[str]) -> DataOutputs:
    channels = {n.removeprefix("documents/"): c for n, c in sorted(counts.items()) if n.startswith("documents/")}
    return DataOutputs(
        documents=sum(channels.values()),
        channels=channels,
        instructions=counts["instructions"],
        instructions_heldout=counts["instructions_heldout"],
        preferences=counts["preferences"],
        preferences_heldout=counts["preferences_heldout"],
        prompts=counts["prompts"],
        benchmark={lang: counts[f"benchmark/{lang}"] for lang in ("en", "zh")},
        rejected=dict(sorted(tally.rejected.items())),
        skipped=skipped,
        own=own,
    )


STEP = Step("data", DataConfig, run, version=3)

if __name__ == "__main__":
    STEP.main()
