"""One pass of a corpus through the filters: every document ends in its channel's file or among the rejects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from heapq import nsmallest
from typing import Any

from argosy.cleaning.filter import Drop, Filter
from argosy.cleaning.report import Report
from argosy.documents import Document, JsonlWriters


def clean_corpus(
    documents: Iterable[Document], filters: Sequence[Filter[Any]], writers: JsonlWriters, report: Report
) -> Iterator[int]:
    """Write `documents/<channel>` and `rejects/<filter>`; yields the number of documents so far.

    A reject is the document as it entered, with `filter` and `reason`: nothing that a filter changed before is lost.
    """
    for number, document in enumerate(documents, 1):
        report.came(document)
        writers.open(f"documents/{document.channel}")
        current = document
        for one in filters:
            config = one.config
            if current.channel in config.skip_channels:
                continue
            result = one(current)
            if isinstance(result, Drop):
                report.dropped(current, config.name, result.reason)
                extra = {"filter": config.name, "reason": result.reason}
                writers.write(f"rejects/{config.name}", document.to_record() | extra)
                break
            if result is not current:
                report.changed(result, config.name)
                current = result
        else:
            report.kept(current)
            writers.write(f"documents/{current.channel}", current.to_record())
        yield number


def sample_documents(documents: Iterable[Document], count: int) -> list[Document]:
    """`count` documents by the least hash of their ids: the same ones in any order of the corpus."""
    if count == 0:
        return []
    return nsmallest(count, documents, key=lambda document: blake2b(document.id.encode(), digest_size=8).digest())
