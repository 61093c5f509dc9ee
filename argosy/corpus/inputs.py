"""The user's documents: read, written to their channels, unreadable lines set aside."""

from __future__ import annotations

from collections.abc import Sequence

from argosy.documents import JsonlWriters
from argosy.documents.rejects import Reject, Tally
from argosy.documents.source import InputFile, SourceConfig, list_inputs, read_source
from argosy.errors import InputError

MAX_CHANNELS = 100
REJECTS = "rejects/documents"


def write_inputs(
    inputs: Sequence[str], config: SourceConfig, writers: JsonlWriters, rejects_at: str
) -> tuple[Tally, list[str]]:
    """Write `documents/<channel>` and `rejects/documents`; returns counts of records, and files of unknown formats.

    Raises:
        InputError: an input is absent, empty or mostly unreadable, or there are too many channels.
    """
    files, unknown = list_inputs(inputs)
    tally = Tally()
    writers.open(REJECTS)
    for file in files:
        _write_file(file, config, writers, tally)
        if len(writers.counts) > MAX_CHANNELS:
            raise InputError(
                f"data.source.channel_field: {config.channel_field!r} has more than {MAX_CHANNELS} values; a channel "
                "is a kind of text with its own loss: name another field, or set data.source.channel"
            )
    writers.finish(REJECTS)  # a refusal points to them
    tally.check(f"data.inputs {', '.join(inputs)}", rejects_at)
    return tally, unknown


def _write_file(file: InputFile, config: SourceConfig, writers: JsonlWriters, tally: Tally) -> None:
    for item, records in read_source(file, config):
        if isinstance(item, Reject):
            tally.rejected[item.reason] += records
            writers.write(REJECTS, item.to_record())
        else:
            tally.read += records
            writers.write(f"documents/{item.channel}", item.to_record())
