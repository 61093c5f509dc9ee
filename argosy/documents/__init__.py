"""Documents: the record, the user's files that are read into it, and the JSONL files between steps."""

from argosy.documents.jsonl import JsonlWriters, read_documents, read_jsonl
from argosy.documents.record import Document

__all__ = ["Document", "JsonlWriters", "read_documents", "read_jsonl"]
