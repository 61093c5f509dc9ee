"""Formats of benchmark files: each module of this package registers one by being there.

A format is a class with a `name` and `parse(record, at) -> [Item or OpenItem, ...]`; how a file is cut into records is
`Format.records`, by its suffix, unless the class has its own. The same `parse` reads rows of a Hugging Face dataset.
"""

from evals.formats.format import At, Format
from evals.formats.reading import item_prefix, parse_item, parse_records, read_items
from evals.formats.registry import find_format, registered

__all__ = ["At", "Format", "find_format", "item_prefix", "parse_item", "parse_records", "read_items", "registered"]
