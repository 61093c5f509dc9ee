"""Records of benchmark files, and their fields, each read in one way, never guessed.

A reader raises BrokenItem with the reason where a field is absent or wrong."""

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BeforeValidator

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.corpus.data.jsonl import Reject, parse_or_reject
from argosy.corpus.text.scripts import HAN
from evals.extract.listed import CIRCLED, without_labels, without_list
from evals.items import LANGS, LETTERS, BrokenItem, Item

Record = Mapping[str, Any]
Records = Iterator[Record | BrokenItem]
_BOM = b"\xef\xbb\xbf"


def json_lines(path: Path, encoding: str = "utf-8") -> Records:
    """Read the objects of a JSONL file; lines that are none as BrokenItem."""
    read_bytes(path, 2)
    for line in parse_or_reject(path, lambda _, record: record, encoding=encoding):
        yield BrokenItem(line.reason) if isinstance(line, Reject) else line


def json_list(path: Path, encoding: str = "utf-8", key: str = "") -> Records:
    """Read the objects of a JSON file that is a list, or an object with a list in `key`. Raises InputError: the file is
    no such JSON."""
    try:
        data = json.loads(read_bytes(path).removeprefix(_BOM).decode(encoding))
    except ValueError as error:
        raise InputError(f"{path} is not JSON in {encoding} ({error}); mend it, or say its `encoding`") from None
    found = data.get(key) if key and isinstance(data, dict) else data
    if not isinstance(found, list):
        raise InputError(f"{path} is not a JSON list{f' or an object with one in {key!r}' if key else ''}")
    yield from (record if isinstance(record, dict) else BrokenItem("not a JSON object") for record in found)


def csv_rows(path: Path, encoding: str = "utf-8") -> Iterator[list[str] | BrokenItem]:
    """Read the rows of a CSV; those with bytes that are not of `encoding` as BrokenItem."""
    text = read_bytes(path).removeprefix(_BOM).decode(encoding, errors="surrogateescape")
    try:
        for row in csv.reader(io.StringIO(text, newline="")):
            readable = not any("\udc80" <= char <= "\udcff" for field in row for char in field)
            yield row if readable else BrokenItem(f"invalid {encoding.upper()}")
    except csv.Error as error:
        yield BrokenItem(f"the rest of the file is no CSV ({error})")


def csv_records(path: Path, encoding: str = "utf-8", needs: Sequence[str] = ()) -> Records:
    """Read the rows of a CSV by its header's names, in lower case. Raises InputError: one of `needs` is not there."""
    rows = csv_rows(path, encoding)
    first = next(rows, [])
    header = [] if isinstance(first, BrokenItem) else [name.strip().lower() for name in first]
    if absent := [name for name in needs if name not in header]:
        raise InputError(f"{path} has no column {absent[0]!r}; its header is {', '.join(header) or 'empty'}")
    for row in rows:
        if isinstance(row, BrokenItem):
            yield row
        elif any(field.strip() for field in row):
            fits = len(row) == len(header)
            yield dict(zip(header, row, strict=True)) if fits else BrokenItem("row has another number of columns")


def with_labels(path: Path, encoding: str) -> Records:
    """Read the lines of `dev.jsonl` with those of `dev-labels.lst` as `label`, where such a file is beside it. Raises
    InputError: the two have different numbers of lines."""
    file = path.with_name(f"{path.stem}-labels.lst")
    records = json_lines(path, encoding)
    if not file.is_file():
        yield from records
        return
    labels, lines = read_bytes(file).decode("utf-8-sig").split(), 0
    for record in records:
        label = labels[lines] if lines < len(labels) else None
        lines += 1
        yield record if isinstance(record, BrokenItem) else {"label": label, **record}
    if lines != len(labels):
        raise InputError(f"{path} has {lines} lines and {file.name} {len(labels)}: they are not of one split")


def read_bytes(path: Path, size: int = -1) -> bytes:
    """Read the file's bytes, or the first `size` of them. Raises InputError: it is UTF-16, as no format here is."""
    with open(path, "rb") as file:
        data = file.read(size)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is UTF-16; save it as UTF-8")
    return data


_AROUND = " \t\r\n()[]{}<>.:,、。（）【】"
_HAN = re.compile(f"[{HAN}]")
_NO_LABEL, _NOT_AMONG = "answer is not a label of the choices", "answer is not among the choices"


ONE_OR_SEVERAL = BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)  # a text, or a list


class Fields(Config):
    """Names of a record's fields."""

    question: str = "question"
    """Field of the question."""
    choices: str | tuple[str, ...] = "choices"
    """Field of all options (texts, or labels with texts), or a field an option."""
    answer: str = "answer"
    """Field of the right option: its number, its label or its text; a list of these where several are right."""
    id: str = "id"
    """Field of the id; without it, the file's name and the record's number."""
    lang: str = "lang"
    """Field of the language."""
    subject: str = "subject"
    """Field of the subject."""
    cluster: str = "cluster"
    """Field of the name that related items share."""
    solution: str = "solution"
    """Field of how the answer is found, for worked examples of a chain of thought."""


class Options(NamedTuple):
    """The options of a record, and their labels where it has some."""

    texts: list[object]
    labels: list[Any]


def options(record: Record, names: str | Sequence[str]) -> Options:
    """Read the options behind one field, or of a field each (those at the end may be absent)."""
    if not isinstance(names, str):
        texts = [record.get(name) for name in names]
        while texts and (texts[-1] is None or not str(texts[-1]).strip()):
            texts.pop()
        if not all(str(each or "").strip() for each in texts):
            raise BrokenItem("an option is empty")
        return Options(texts, [])
    value = record.get(names)
    if isinstance(value, Mapping):
        both = {"label", "text"} <= value.keys()
        return Options(list(value["text"]), list(value["label"])) if both else Options([*value.values()], [*value])
    if not isinstance(value, list | tuple):
        raise BrokenItem(f"no {names}" if value is None else f"{names} are not a list of texts")
    if value and all(isinstance(each, Mapping) and {"label", "text"} <= each.keys() for each in value):
        return Options([each["text"] for each in value], [each["label"] for each in value])
    return Options(list(value), [])


def language_of(*texts: str) -> str:
    """Tell the language of texts that do not say it: zh where there is a Chinese character, else en."""
    return "zh" if any(_HAN.search(each) for each in texts) else "en"


def text(record: Record, name: str) -> str:
    """Read a field that is a text, without space around it."""
    if name not in record or record[name] is None:
        raise BrokenItem(f"no {name}")
    value = record[name]
    if not isinstance(value, str) or not value.strip():
        raise BrokenItem(f"{name} is not a text")
    return value.strip()


def place_of(value: object, found: Options, first: int | None, *, in_any_form: bool = False) -> int:
    """Read which option an answer names: by its number, where counting begins at `first` (None: at 0, and digits in a
    text are no number), or by its label (the record's, else a letter); `in_any_form`: also by ① or by its text."""
    if isinstance(value, int) and not found.labels:
        return number_index(value, first or 0)
    places = {place for place, each in enumerate(found.texts) if in_any_form and each == str(value).strip()}
    sets = [LETTERS[: len(found.texts)], CIRCLED[: len(found.texts)]] if in_any_form else [LETTERS]
    for labels in [found.labels] if found.labels else sets:
        with suppress(BrokenItem):
            places.add(label_index(value, labels))
    if first is not None and not places and isinstance(value, str):
        return number_index(value, first)
    if len(places) != 1:
        raise BrokenItem("answer is the label of one option and the text of another" if places else _NO_LABEL)
    return places.pop()


def label_index(value: object, labels: Sequence[Any] = LETTERS) -> int:
    """Read the index of a label: "B", "b", "(B)", "B." and full-width "Ｂ" are all 1."""
    label, known = _bare(value), [_bare(each) for each in labels]
    if label is None or label not in known:
        raise BrokenItem(_NO_LABEL)
    return known.index(label)


def _bare(label: object) -> str | None:
    if isinstance(label, bool) or not isinstance(label, str | int):
        return None
    bare = str(label).strip(_AROUND)
    return bare if bare in CIRCLED else unicodedata.normalize("NFKC", bare).strip(_AROUND).upper()


def label_indexes(value: object) -> tuple[int, ...]:
    """Read the indexes of several labels: "ACD", "A,C,D", "ＡＣ" or ["A", "C"], each once, in order."""
    joined = "".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    letters = re.sub(r"[\s,、，;()]+", "", unicodedata.normalize("NFKC", joined)).upper()
    if not letters or not set(letters) <= set(LETTERS):
        raise BrokenItem(_NO_LABEL)
    return tuple(sorted({LETTERS.index(letter) for letter in letters}))


def number_index(value: object, first: int) -> int:
    """Read the index of a number, or of its digits, where counting begins at `first` (0 or 1)."""
    if isinstance(value, str):
        digits = unicodedata.normalize("NFKC", value).strip()
        value = int(digits) if re.fullmatch(r"-?[0-9]+", digits) else value
    if not isinstance(value, int) or isinstance(value, bool):
        raise BrokenItem("answer is not a number")
    return value - first


def checked(
    id: str, lang: str, question: str, choices: Iterable[object], answer: int, *, answers: tuple[int, ...] = (),
    subject: str = "", cluster: str = "", solution: str = "",
) -> Item:  # fmt: skip
    """Make an item of its fields, when they are one."""
    found = list(choices)
    texts = without_labels([choice.strip() for choice in found if isinstance(choice, str) and choice.strip()])
    if len(texts) < len(found):
        raise BrokenItem("choices are not a list of texts")
    if not 2 <= len(texts) <= len(LETTERS):
        raise BrokenItem(f"number of choices is not within 2 to {len(LETTERS)}")
    if len(set(texts)) < len(texts):
        raise BrokenItem("two choices are the same")
    if not all(0 <= right < len(texts) for right in (answer, *answers)):
        raise BrokenItem(_NOT_AMONG)
    if not question.strip():
        raise BrokenItem("question is not a text")
    if lang not in LANGS:
        raise BrokenItem(f"lang is not one of {', '.join(LANGS)}")
    answers = answers if len(answers) > 1 else ()
    asked = without_list(question.strip(), texts)
    return Item(id, lang, asked, texts, answer, answers, subject, cluster, solution=solution)
