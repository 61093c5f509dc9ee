"""Formats of benchmark files: their base class, the scan that finds them, and the reading of files into items.

A record that is no item is left out and counted by reason."""

import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from math import comb
from pathlib import Path
from typing import ClassVar

from argosy.core.errors import InputError
from argosy.core.plugins import Folder
from evals.items import AnyItem, BrokenItem, Item, Items, mixed
from evals.records import (
    Fields,
    Record,
    Records,
    checked,
    csv_records,
    json_lines,
    json_list,
    language_of,
    options,
    place_of,
    text,
)


@dataclass(frozen=True)
class At:
    """The place of a record, and the settings of its task that hold for all records."""

    file: str
    """Name that ids begin with: the file's, or the dataset's split."""
    number: int = 0
    """Place of the record in its file, from 0."""
    lang: str = ""
    """Language of the items; "" where the format decides."""
    subject: str = ""
    """Subject of the items; "" where the format decides."""
    stem: str = ""
    """Subject that the file's name says (abstract_algebra_test.csv), for formats with a file a subject."""
    index_from: int | None = None
    """First number of answers that are numbers; None: the format's."""

    @property
    def id(self) -> str:
        """The id of an item that has none in its record."""
        return f"{self.file}/{self.number}"


class Format:
    """Base of formats: a record is an item, whose parts are behind `fields`."""

    name: ClassVar[str] = ""
    lang: ClassVar[str] = "en"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    fields: Fields = Fields()
    first: ClassVar[int | None] = None
    """First number of answers that are numbers, also where they are digits in a text; None: 0, and digits are none."""
    in_any_form: ClassVar[bool] = False
    """Whether an answer may be an option's text, or ①."""
    a_file_a_subject: ClassVar[bool] = False

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """Cut a file into records: a line of JSONL, an entry of a JSON list, a row of a CSV with a header."""
        if path.suffix == ".csv":
            return csv_records(path, encoding)
        return json_list(path, encoding) if path.suffix == ".json" else json_lines(path, encoding)

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """Read the items of one record. Raises BrokenItem: a field is absent or wrong; says which."""
        return [self.item(record, at)]

    def item(self, record: Record, at: At, *, question: str = "", id: str = "", cluster: str = "") -> Item:
        """Read the item of a record; `question`, `id` and `cluster`: where the format makes them of several fields."""
        names = self.fields
        question = question or text(record, names.question)
        value = record.get(names.answer)
        if value is None or value == []:
            raise BrokenItem(f"no {names.answer}")
        found = options(record, names.choices)
        first = self.first if at.index_from is None else at.index_from
        rights = [place_of(each, found, first, in_any_form=self.in_any_form)
                  for each in (value if isinstance(value, list) else [value])]
        lang = at.lang or str(record.get(names.lang) or self.lang or language_of(question, *map(str, found.texts)))
        subject = str(record.get(names.subject) or at.subject or (at.stem if self.a_file_a_subject else ""))
        cluster = cluster or str(record.get(names.cluster) or "")
        name = record.get(names.id)
        return checked(id or (at.id if name is None else str(name)), lang, question, found.texts, min(rights),
                       answers=tuple(sorted({*rights})), subject=subject, cluster=cluster,
                       solution=str(record.get(names.solution) or "").strip())  # fmt: skip


BY_SUFFIX = {".jsonl": "argosy", ".csv": "mmlu"}  # where a task names no format


FORMATS: Folder[Format] = Folder("format", Format, __name__, instances=True)


def find_format(name: str, suffix: str = "", fields: Fields | None = None) -> Format:
    """Look up a format by its name, or without one by the suffix of the file; `fields`: those of a suite instead.
    Raises InputError: there is none (names the nearest, or the known suffixes)."""
    if fields is not None:
        return OwnFields(fields)
    name = name or BY_SUFFIX.get(suffix, "")
    if not name:
        raise InputError(f"items are read from {', '.join(BY_SUFFIX)}; for another suffix than these say `format`")
    return FORMATS.pick(name)


class OwnFields(Format):
    """Records whose fields a suite names (`fields` of a task)."""

    lang = ""
    suffixes = (".jsonl", ".json", ".csv")
    in_any_form = True

    def __init__(self, fields: Fields) -> None:
        self.fields = fields


_SAMPLE = 100  # records that show whether the right option is always published at one place
_FEWEST = 12  # records that can show it: five examples of a subject may well have one letter
_NEARLY_ALL = 0.9
_BY_CHANCE = 0.005  # that so many stand at one place


def read_items(
    path: Path, limit: int | None = None, format: str = "", *, lang: str = "", subject: str = "",
    encoding: str = "utf-8", index_from: int | None = None, name: str = "", fields: Fields | None = None,
    mix: bool | None = None,
) -> Items:  # fmt: skip
    """Read the items of a file, at most the first `limit` of them.

    Args:
        format: name of a format; "": argosy's for JSONL, MMLU's for CSV.
        name: the beginning of ids; "": the file's stem.
        lang, subject, index_from: of all records (see At).
        fields: names of the records' fields, in place of a format.
        mix: whether options get an order that the id decides (see `collected`).

    Raises InputError: the file is absent or cannot be read, its format is unknown, or it has no usable item."""
    reader = _format(path, format, fields)
    stem = item_prefix(path)
    topic = re.sub(r"[_-](test|dev|val|validation|train)$", "", stem)  # abstract_algebra_test
    at = At(name or stem, 0, lang, subject, topic, index_from)
    try:
        found = parse_records(reader.records(path, encoding), reader, at, limit, mix)
    except LookupError as error:
        raise InputError(f"encoding is {encoding!r}: {error}") from None
    if not found.items:
        hint = f"; if it is not {encoding.upper()}, say its `encoding` (such as gb18030)"
        bytes_are_wrong = found.left_out["invalid JSON"] or found.left_out[f"invalid {encoding.upper()}"]
        raise InputError(f"{path} has no usable item; lines left out: {dict(found.left_out) or 'none, it is empty'}"
                         f"{hint if bytes_are_wrong else _forms(path, encoding)}")  # fmt: skip
    return found


def item_prefix(path: Path) -> str:
    """Take the beginning of the ids of a file's items: its stem, without a source path that is written into it."""
    return path.stem.rpartition("__")[2]


def _format(path: Path, name: str, fields: Fields | None) -> Format:
    try:
        found = find_format(name, path.suffix, fields)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if path.suffix not in found.suffixes:
        raise InputError(f"{path}: format {found.name} is read from {', '.join(found.suffixes)}")
    if not path.is_file():
        raise InputError(f"{path} does not exist; a data step writes benchmark/en.jsonl and benchmark/zh.jsonl: give "
                         "its directory (argosy evaluate --data DIR)")
    return found


def parse_records(records: Iterable[Record | BrokenItem], format: Format, at: At, limit: int | None = None,
                  mix: bool | None = None) -> Items:
    """Read the items of records, until there are `limit` (see `collected`)."""
    parsed = (_parse(record, format, replace(at, number=number)) for number, record in enumerate(records))
    return collected(parsed, at.file, limit, mix)


def collected(parsed: Iterable[Iterable[AnyItem | BrokenItem]], file: str, limit: int | None,
              mix: bool | None) -> Items:
    """Collect at most `limit` items of a file's records; a second item of the same id is left out.

    `mix`: whether options get an order that the item's id decides; None: where nearly all of the first records have
    the right option at one place, more often than by chance, so that a model that prefers it would be right."""
    found, ids, sample = Items(), set(), list[Item]()
    for number, item in ((number, item) for number, items in enumerate(parsed, 1) for item in items):
        taken = limit is None or len(found.items) < limit
        if not taken and number > _SAMPLE:
            break
        reason = str(item) if isinstance(item, BrokenItem) else "id is there twice" if item.id in ids else ""
        if reason and taken:
            found.left_out[reason] += 1
            found.rejects.append((file, number, reason))
        if isinstance(item, BrokenItem) or reason:
            continue
        ids.add(item.id)
        if number <= _SAMPLE and isinstance(item, Item) and not item.mixed:
            sample.append(item)
        if taken:
            found.items.append(item)
    if mix or (mix is None and sample and (place := _one_place(sample))):
        found.items = [mixed(item) if isinstance(item, Item) and not item.mixed else item for item in found.items]
    if not mix and sample and (place := _one_place(sample)):
        done = "options are asked in an order that the id decides" if mix is None else "give `mixed: true`"
        found.warnings.append(f"{file}: the right option is at place {place} in nearly all records: {done}")
    return found


def _one_place(sample: Iterable[Item]) -> int:
    """Find the place (from 1) that nearly all right options have, more often than by chance; 0 where there is none, and
    where all items have the same options (yes, no), whose order says nothing."""
    items = [item for item in sample if not item.harness_only]
    if len(items) < _FEWEST or len({item.choices for item in items}) < 2:
        return 0
    [(place, count)] = Counter(item.answer for item in items).most_common(1)
    n, options = len(items), min(len(item.choices) for item in items)
    tail = sum(comb(n, k) * (options - 1) ** (n - k) for k in range(count, n + 1)) / options ** (n - 1)
    return place + 1 if count >= _NEARLY_ALL * n and tail < _BY_CHANCE else 0


def _parse(record: Record | BrokenItem, format: Format, at: At) -> Iterable[AnyItem | BrokenItem]:
    """Read the items of a record, and a BrokenItem for each question of it that is none."""
    if isinstance(record, BrokenItem):
        return [record]
    found: list[AnyItem | BrokenItem] = []
    try:
        found += format.parse(record, at)
    except BrokenItem as reason:
        found.append(reason)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):  # a field of another kind
        found.append(BrokenItem(f"fields are not as format {format.name} has them"))
    return found


def _forms(path: Path, encoding: str) -> str:
    """Name the fields that the first records have, and the formats that can read them."""
    records: list[Record] = []
    with suppress(InputError):
        first = islice(Format().records(path, encoding), 10)
        records = [record for record in first if not isinstance(record, BrokenItem)]
    if not records:
        return ""
    fitting = [name for name, each in FORMATS.items() if parse_records(records, each, At("")).items]
    fit = f"`format: {' or '.join(fitting)}` reads them; else" if fitting else "no format reads them:"
    return (f". Their fields are {', '.join(dict.fromkeys(name for record in records for name in record))}; {fit} name "
            "them, such as `fields: {question: stem, choices: [a, b, c, d], answer: key}`")
