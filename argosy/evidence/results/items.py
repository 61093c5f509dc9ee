"""Rows of an evaluation, one an item x variant, as Parquet: any tool reads them, and equal rows are equal bytes; the
settings that an evaluation was measured with, and the one that counts of several.

Kinds of rows differ in their keys and in what one key holds (`scores` is a list, of memorisation a list of lists). A
key whose values are of several kinds has a column a kind: the plain name for the first of KINDS, `<key>:<kind>` for the
others. A value of no kind is JSON text."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.core.config.explain import grouped
from argosy.core.errors import InputError
from argosy.core.lazy import pa, pq
from argosy.core.store.files import write_atomic
from argosy.core.store.step_files import ended

if TYPE_CHECKING:
    from pyarrow import Table


ITEMS = "items.parquet"
ASKED = "asked"  # a row's key for the digest of its question
FIRST = ("task", "variant", "id", "item", "lang", "correct", "correct_norm", "chosen", "gold", "scores")
KINDS = ("bool", "int", "float", "str", "ints", "floats", "strs", "lists", "json")


def digest(*parts: object) -> str:
    """Hash texts, numbers and lists of them to 8 hexadecimal digits (SHA-256): different ones agree once in 4 billion.

    A question's digest leaves out a chat template's text around it: a base model and its tuned one have the same."""
    text = json.dumps(parts, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def row_of(line: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the row that a line of all columns was made of."""
    row: dict[str, Any] = {}
    for name, value in line.items():
        key, _, kind = name.rpartition(":") if name.endswith(tuple(f":{kind}" for kind in KINDS)) else (name, "", "")
        if value is not None:
            row[key] = json.loads(value) if kind == "json" else value
    return row


def _columns(key: str, values: Sequence[Any]) -> Iterable[tuple[str, str, list[Any]]]:
    """Yield a name, a kind of KINDS, and a value a row (None where it has none of this kind)."""
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
        yield name, kind, chosen


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


def write_items(out: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write `items.parquet` below `out`, atomically, and return its path. A key is a column; a row without it has null
    there. The same rows are the same bytes, with one version of pyarrow."""
    import io

    buffer = io.BytesIO()
    pq.write_table(_table(rows), buffer, compression="zstd", row_group_size=65_536)
    path = out / ITEMS
    write_atomic(path, buffer.getvalue())
    return path


def read_items(directory: Path | str) -> list[dict[str, Any]]:
    """Read the rows of an evaluation's directory, in their order; a row has no key for a column that it lacks. Raises
    InputError: there is no `items.parquet`, or it is not whole."""
    path = Path(directory) / ITEMS
    if not path.is_file():
        raise InputError(f"{directory} has no {ITEMS}: evaluate the checkpoint again")
    try:
        with pq.ParquetFile(path) as file:
            return [row_of(line) for line in file.read(use_threads=False).to_pylist()]
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is broken ({error}): remove its directory and evaluate again") from None


def _table(rows: Sequence[Mapping[str, Any]]) -> "Table":
    kinds = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "str": pa.string(),
             "ints": pa.list_(pa.int64()), "floats": pa.list_(pa.float64()), "strs": pa.list_(pa.string()),
             "lists": pa.list_(pa.list_(pa.float64())), "json": pa.string()}  # fmt: skip
    keys = {key for row in rows for key in row}
    ordered = [key for key in FIRST if key in keys] + sorted(keys.difference(FIRST))
    columns = [column for key in ordered for column in _columns(key, [row.get(key) for row in rows])]
    arrays = [pa.array(values, kinds[kind]) for _, kind, values in columns]
    return pa.table(arrays, names=[name for name, _, _ in columns])


FILES = ("suite_file", "suite_files")  # of an evaluation's config: stride, numbers of documents, and texts are in them
MARK = "#"


def settings_of(made_from: Mapping[str, Any]) -> str:
    """A digest of the bytes of an evaluation's suite and of the files that it names; "" where it was given by name
    alone, so that they are not known."""
    external = made_from.get("external") or {}
    files = {name: external[name] for name in FILES if external.get(name)}
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:8] if files else ""


def measured(suite: str, settings: str) -> str:
    """Name a suite with its settings: losses are compared where the names are equal."""
    return f"{suite}{MARK}{settings}" if settings else suite


def told(first: str, second: str) -> str:
    """Two of `measured` for people: `heldout and core`, or that one of them has changed."""
    one, other = (name.partition(MARK)[0] for name in (first, second))
    return f"suite {one}, which changed in between" if one == other else f"suites {one} and {other}"


Done = Mapping[str, Any]  # what outputs.json holds


def in_order(evaluations: Sequence[tuple[Path, Done]]) -> list[tuple[Path, Done]]:
    """The newest last; but one of a part of the items (`limit`) comes before those that asked the same suite for more.

    `evaluations`: directories of finished evaluations, with their outputs.json."""
    known = {path: (_suite(done), float(done["made_from"]["config"].get("limit") or "inf"), ended(path))
             for path, done in evaluations}
    alike = grouped((suite, (limit, at)) for suite, limit, at in known.values())  # by suite: how many items, and when

    def place(entry: tuple[Path, Done]) -> tuple[float, float, str]:
        suite, limit, at = known[entry[0]]
        return min([at, *(when for items, when in alike[suite] if items > limit)]), limit, entry[0].name

    return sorted(evaluations, key=place)


def _suite(done: Done) -> tuple[object, ...]:
    made = done["made_from"]
    asked = (str(made["upstream"].get(name)) for name in ("checkpoint", "data"))
    return done["outputs"].get("suite"), settings_of(made), *asked, str(done["outputs"].get("checkpoint"))
