"""Rows of any keys as columns of one type each, and back.

Kinds of rows differ in their keys and in what one key holds (`scores` is a list, of memorisation a list of lists). A
key whose values are of several kinds has a column a kind: the plain name for the first of KINDS, `<key>:<kind>` for the
others. What fits no kind is JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FIRST = ("task", "variant", "id", "item", "lang", "correct", "correct_norm", "chosen", "gold", "scores")
KINDS = ("bool", "int", "float", "str", "ints", "floats", "strs", "lists", "json")


@dataclass(frozen=True)
class Column:
    """A name, a kind of KINDS, and a value a row (None where it has none of this kind)."""

    name: str
    kind: str
    values: list[Any]


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Columns of all rows: those of FIRST, then the others by name. A value None counts as absent."""
    keys = {key for row in rows for key in row}
    ordered = [key for key in FIRST if key in keys] + sorted(keys.difference(FIRST))
    return [column for key in ordered for column in _columns(key, [row.get(key) for row in rows])]


def row_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """The row that a line of all columns was made of."""
    row: dict[str, Any] = {}
    for name, value in found.items():
        key, _, kind = name.rpartition(":") if name.endswith(tuple(f":{kind}" for kind in KINDS)) else (name, "", "")
        if value is not None:
            row[key] = json.loads(value) if kind == "json" else value
    return row


def _columns(key: str, values: Sequence[Any]) -> Iterable[Column]:
    kinds = [None if value is None else _kind(value) for value in values]
    present = {kind for kind in kinds if kind}
    for narrow, wide in (("int", "float"), ("ints", "floats")):
        if {narrow, wide} <= present:
            kinds = [wide if kind == narrow else kind for kind in kinds]
            present.discard(narrow)
    if "empty" in present:
        as_list = next((kind for kind in ("ints", "floats", "strs", "lists") if kind in present), "floats")
        kinds = [as_list if kind == "empty" else kind for kind in kinds]
        present = present - {"empty"} | {as_list}
    for number, kind in enumerate(kind for kind in KINDS if kind in present):
        name = key if number == 0 and kind != "json" else f"{key}:{kind}"
        chosen = [value if own == kind else None for value, own in zip(values, kinds, strict=True)]
        if kind == "json":
            chosen = [v if v is None else json.dumps(v, ensure_ascii=False, sort_keys=True) for v in chosen]
        yield Column(name, kind, chosen)


def _kind(value: Any) -> str:
    for kind, types in (("bool", bool), ("int", int), ("float", float), ("str", str)):
        if isinstance(value, types):
            return kind
    if not isinstance(value, list | tuple):
        return "json"
    inner = {_kind(each) for each in value}
    if not inner:
        return "empty"
    if inner <= {"int", "float"}:
        return "floats" if "float" in inner else "ints"
    if inner == {"str"}:
        return "strs"
    return "lists" if inner <= {"ints", "floats", "empty"} else "json"
