"""Questions and options out of the running text of an examination paper."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPTION = re.compile(r"(?<![A-Za-z$\\{^_])([A-GＡ-Ｇ])\s?[．.、](?!\s*[、，])")
_NUMBER = r"(?:[（(]\s*{0}\s*[)）]|(?<!\d){0}\s*[．.、](?!\d)|^\s*{0}\s(?=[A-Z一-鿿]))"
_ANY_NUMBER = re.compile(_NUMBER.format(r"(\d{1,2})").replace(r"(\d{1,2})", r"\d{1,2}"), re.MULTILINE)
_OWN_NUMBER = re.compile(r"\s*(?:[（(]\s*\d{1,2}\s*[)）]|\d{1,2}\s*(?:[．、]|\.(?!\d)))")
_POINTS = re.compile(r"^\s*(?:[（(]\s*\d+\s*分\s*[)）])?\s*")
_CJK = r"[　-〿一-鿿＀-￯]"
_FEWEST = 4  # options of a question; of fewer, a mark was not found


@dataclass(frozen=True)
class Asked:
    """A question with its options, not yet judged."""

    question: str
    choices: tuple[str, ...]


Run = list[re.Match[str]]


def clean(text: str, lang: str) -> str:
    """Text without what a PDF left in it: lines broken within a Chinese sentence, runs of spaces. In English papers
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
    """Marks A, B, C, ... that follow each other, a list for each question. A mark that is not the next one is text."""
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


def split_questions(text: str, runs: list[Run]) -> list[Asked] | None:
    """A question a run, each after the passage that stands before the first; None where one does not end.

    Numbers of questions follow each other; the last option of a question ends where the next number stands.
    """
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
        found.append(Asked("\n".join(part for part in (passage, stem) if part), _options(text, run, end)))
        begin = end
    return found


def _first_number(before: str) -> tuple[int, int]:
    """Where the number of the first question stands in the text before its options, and which it is."""
    numbers = list(_ANY_NUMBER.finditer(before))
    if not numbers:
        return 0, 0
    return numbers[-1].start(), int("".join(char for char in numbers[-1][0] if char.isdigit()))


def _bare(stem: str) -> str:
    """The stem without its number and points; a number alone stays, as it names a blank."""
    number = _OWN_NUMBER.match(stem) or _ANY_NUMBER.match(stem)
    return _POINTS.sub("", stem[number.end() :] if number else stem).strip() or stem


def _options(text: str, run: Run, end: int) -> tuple[str, ...]:
    bounds = [*(mark.start() for mark in run[1:]), end]
    return tuple(text[mark.end() : stop].strip().rstrip("；;") for mark, stop in zip(run, bounds, strict=True))


def blank_numbers(passage: str, count: int) -> list[int]:
    """The `count` numbers of blanks in a passage, which follow each other; [] where they are not there."""
    numbers = [int(digits) for digits in re.findall(r"(?<![\d.])\d{1,2}(?!\d|\.\d)", passage)]
    for first in sorted(set(numbers), reverse=True):
        wanted = list(range(first, first + count))
        places = [numbers.index(number) for number in wanted if number in numbers]
        if len(places) == count and places == sorted(places):
            return wanted
    return []
