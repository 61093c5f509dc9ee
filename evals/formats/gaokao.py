"""GAOKAO-Bench (Zhang et al., 2023): objective questions of the Chinese university entrance examination."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.formats import At, Format
from evals.items import AnyItem, BrokenItem
from evals.records import Record, Records, checked, json_list, label_indexes

_OPTION = re.compile(r"(?<![A-Za-z$\\{^_])([A-GＡ-Ｇ])\s?[．.、](?!\s*[、，])")
_NUMBER = r"(?:[（(]\s*{0}\s*[)）]|(?<!\d){0}\s*[．.、](?!\d)|^\s*{0}\s(?=[A-Z一-鿿]))"
_ANY_NUMBER = re.compile(_NUMBER.format(r"(\d{1,2})").replace(r"(\d{1,2})", r"\d{1,2}"), re.MULTILINE)
_OWN_NUMBER = re.compile(r"\s*(?:[（(]\s*\d{1,2}\s*[)）]|\d{1,2}\s*(?:[．、]|\.(?!\d)))")
_POINTS = re.compile(r"^\s*(?:[（(]\s*\d+\s*分\s*[)）])?\s*")
_CJK = r"[　-〿一-鿿＀-￯]"
_FEWEST = 4  # options of a question; of fewer, a mark was not found


@dataclass(frozen=True)
class ExamQuestion:
    """A question with its options, not yet validated."""

    question: str
    choices: tuple[str, ...]


Run = list[re.Match[str]]


def clean(text: str, lang: str) -> str:
    """Clean a text of traces of a PDF: lines broken within a Chinese sentence, runs of spaces. In English papers
    a run of four and more spaces between words is the gap to fill."""
    text = text.replace("\u3000", " ").replace("\t", " ").replace("\r", "")
    if lang == "en":
        text = re.sub(r"(?<=[^\s\d]) {4,}(?=[^\s\d])(?![A-G]\s?[．.])", " _____ ", text)
    text = re.sub(r" {2,}", " ", re.sub(r" *\n *", "\n", text))
    if lang == "en":
        text = re.sub(r"(?<=[\w,])\n(?=[a-z])", " ", text)
        return re.sub(r"(?<=\w) (?=[,.?!;:’](\W|$)|’\w)", "", text).strip()
    text = re.sub(rf"(?<={_CJK})\n(?!（\s*\d)(?={_CJK})", "", text)
    return re.sub(r" +(?=[、，。；：！？”’．])|(?<=[“‘]) +", "", text).strip()


def runs_of_options(text: str) -> list[Run]:
    """Find marks A, B, C, ... that follow each other, a list for each question. Another mark is text."""
    runs: list[Run] = []
    current: Run = []
    for mark in _OPTION.finditer(text):
        letter = chr(ord(mark[1]) - 0xFEE0) if ord(mark[1]) > 0x7F else mark[1]
        if letter == "A":
            current = [mark]
            runs.append(current)
        elif current and letter == "ABCDEFG"[min(len(current), 6)]:
            current.append(mark)
    return [run for run in runs if len(run) >= _FEWEST]


def split_questions(text: str, runs: list[Run]) -> list[ExamQuestion] | None:
    """Make a question a run, each after the passage that stands before the first; None where one does not end.

    Numbers of questions follow each other; the last option of a question ends where the next number stands."""
    begin, number = _first_number(text[: runs[0][0].start()]) if runs else (0, 0)
    passage = text[:begin].strip() if len(runs) > 1 else ""
    begin = begin if len(runs) > 1 else 0
    found = []
    for index, run in enumerate(runs):
        end = len(text)
        if index + 1 < len(runs):
            places = re.compile(_NUMBER.format(number + index + 1), re.MULTILINE)
            after = list(places.finditer(text, run[-1].end(), runs[index + 1][0].start()))
            if not after:
                return None
            end = after[-1].start()
        stem = _bare(text[begin : run[0].start()].strip())
        found.append(ExamQuestion("\n".join(part for part in (passage, stem) if part), _options(text, run, end)))
        begin = end
    return found


def _first_number(before: str) -> tuple[int, int]:
    """Find the number of the first question and its place in the text before its options."""
    numbers = list(_ANY_NUMBER.finditer(before))
    if not numbers:
        return 0, 0
    return numbers[-1].start(), int("".join(char for char in numbers[-1][0] if char.isdigit()))


def _bare(stem: str) -> str:
    """Strip the stem of its number and points; a number alone stays, as it names a blank."""
    number = _OWN_NUMBER.match(stem) or _ANY_NUMBER.match(stem)
    return _POINTS.sub("", stem[number.end() :] if number else stem).strip() or stem


def _options(text: str, run: Run, end: int) -> tuple[str, ...]:
    bounds = [*(mark.start() for mark in run[1:]), end]
    return tuple(text[mark.end() : stop].strip().rstrip("；;") for mark, stop in zip(run, bounds, strict=True))


def blank_numbers(passage: str, count: int) -> list[int]:
    """Find the `count` numbers of blanks in a passage, which follow each other; [] where they are not there."""
    numbers = [int(digits) for digits in re.findall(r"(?<![\d.])\d{1,2}(?!\d|\.\d)", passage)]
    for first in sorted(set(numbers), reverse=True):
        wanted = list(range(first, first + count))
        places = [numbers.index(number) for number in wanted if number in numbers]
        if len(places) == count and places == sorted(places):
            return wanted
    return []


class Gaokao(Format):
    """`{"example": [{"question", "answer": ["D"], "year", "index"}]}`: the options are in the question's text
    (`A．… B．…`), `"AC"` is several right ones, and a record may be a passage with several questions, which are a
    cluster then. The subject is in the file's name (`2010-2022_History_MCQs`); items are in English where it says so,
    else in Chinese. Questions whose text cannot be split, or whose options are in a table, are left out."""

    name = "gaokao"
    lang = "zh"
    suffixes = (".json",)

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        yield from json_list(path, encoding, "example")

    def parse(self, record: Record, at: At) -> Iterable[Any]:
        """Read an item of each question; a BrokenItem of each that is none."""
        text, answers = record.get("question"), record.get("answer")
        if not isinstance(text, str) or not text.strip():
            raise BrokenItem("question is not a text")
        if not isinstance(answers, list) or not answers:
            raise BrokenItem("no answer")
        subject = at.subject or at.stem
        subject = subject.partition("_")[2].removesuffix("_MCQs") if subject[:1].isdigit() else subject
        lang = at.lang or ("en" if subject.startswith("English") else self.lang)
        questions = _questions(clean(text, lang), len(answers))
        if questions is None:
            return [BrokenItem("options could not be split from the question's text")] * len(answers)
        cluster = at.id if len(answers) > 1 else ""
        numbers = range(len(answers))
        solution = "" if cluster else str(record.get("analysis") or "").strip()
        return [_item(questions[n], answers[n], f"{at.id}.{n + 1}" if cluster else at.id, lang, subject, cluster,
                      solution) for n in numbers]  # fmt: skip


def _questions(text: str, count: int) -> list[ExamQuestion] | None:
    """Split the text into as many questions as there are answers, or return None."""
    runs = runs_of_options(text)
    if len(runs) == 1 and count > 1:  # one list of options for all blanks of a passage
        shared = split_questions(text, runs) or []
        numbers = [number for each in shared for number in blank_numbers(each.question, count)]
        return [ExamQuestion(f"{shared[0].question}\n{number}.", shared[0].choices) for number in numbers] or None
    if count == 1:
        runs = runs[-1:]
    return split_questions(text, runs) if len(runs) == count else None


def _item(exam: ExamQuestion, answer: object, id: str, lang: str, subject: str, cluster: str,
          solution: str) -> AnyItem | BrokenItem:  # fmt: skip
    labels = "ABCDEFG"
    if all(choice.strip("$ .{}\\mathr") in ("", label) for choice, label in zip(exam.choices, labels, strict=False)):
        return BrokenItem("options are in a table or a picture")
    try:
        rights = label_indexes(answer)
        return checked(id, lang, exam.question, exam.choices, rights[0], answers=rights, subject=subject,
                       cluster=cluster, solution=solution)  # fmt: skip
    except BrokenItem as reason:
        return reason
