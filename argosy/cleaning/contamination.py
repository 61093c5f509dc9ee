"""Records for post-training that hold a benchmark item: counted, not dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.cleaning.filter import Drop, Resources
from argosy.cleaning.filters.decontamination import Decontamination, DecontaminationConfig
from argosy.documents import read_jsonl
from argosy.documents.record import Document

# `twin.jsonl` has the benchmark on purpose.
FILES = ("instructions", "instructions_heldout", "preferences", "preferences_heldout", "prompts")
_PARTS = ("messages", "prompt", "chosen", "rejected")


def contamination(data: Path, benchmark: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """By file of a data step's directory: records with an item's question, as `decontamination` finds it."""
    look = Decontamination(DecontaminationConfig(), Resources(benchmark=list(benchmark)))
    return {
        name: sum(isinstance(look(Document(name, text, name)), Drop) for text in _texts(data / f"{name}.jsonl"))
        for name in FILES
        if (data / f"{name}.jsonl").is_file()
    }


def _texts(path: Path) -> Iterator[str]:
    """Each record's messages, a line each."""
    for record in read_jsonl(path):
        messages = [message for key in _PARTS for message in record.get(key) or ()]
        yield "\n".join(str(message.get("content", "")) for message in messages)
