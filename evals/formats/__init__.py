"""Formats of benchmark files: their base class, and the scan that finds them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from argosy.core.errors import InputError
from argosy.core.plugins import Folder
from evals.fields import Fields, checked, language_of, options, place_of, text
from evals.items import AnyItem, BrokenItem, Item
from evals.records import Record, Records, csv_records, json_lines, json_list


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
                       answers=tuple(sorted({*rights})), subject=subject, cluster=cluster)  # fmt: skip


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
