"""Splitting of a prompt of lm-eval into its question and the options that it lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from evals.items import LETTERS

_SAID = r"(?:(?:the +)?(?:correct +)?answer(?: +is)?|A|Ans|(?:正确)?答案|答)(?:是|为)?"
_CUE = re.compile(rf"(?:^|\s)\**{_SAID}\s*[:：]\s*\**\s*$", re.IGNORECASE)
_HEAD = re.compile(r"^\s*(?:question|q|题目|问题|问)\s*[:：]\s*", re.IGNORECASE | re.MULTILINE)
_ANSWERED = re.compile(rf"^\s*\**{_SAID}\s*[:：]\s*\**\s*\S", re.IGNORECASE | re.MULTILINE)
_OPTIONS = re.compile(r"(?:^|\s)(?:answer\s+)?(?:choices|options|选项)\s*[:：]\s*$", re.IGNORECASE)
_LABELS = (LETTERS, LETTERS.lower(), "甲乙丙丁戊己庚辛")
Split = tuple[str, tuple[str, ...]]  # question, texts of the options
_FIELDS = ("choices", "options", "answers", "endings")


def are_labels(choices: Sequence[str]) -> bool:
    """Tell whether options are letters alone: A, B, C, D; (a), (b); 甲, 乙."""
    bare = "".join(choice.strip(" ().:、．") for choice in choices)
    return len(bare) == len(choices) > 1 and any(labels.startswith(bare) for labels in _LABELS)


def without_cue(text: str) -> str:
    """Strip a prompt of "Question:" before it and "Answer:" after it, and of worked examples (TruthfulQA's): where it
    begins with "Question:", the question follows the last of these that has an answer before it."""
    bare = _CUE.sub("", text.strip())
    if not (begin := _HEAD.match(bare)):
        return bare.strip()
    start = last = begin.end()
    for head in _HEAD.finditer(bare, last):
        if _ANSWERED.search(bare[last : head.start()]):
            start = head.end()
        last = head.end()
    return bare[start:].strip()


def split_prompt(text: str, choices: Sequence[str], doc: Mapping[str, Any]) -> Split | None:
    """Split a prompt into its question and the texts of its options; None where these cannot be found.

    Options that are letters have their texts in the document (`choices`, `options`, or a field a letter), and are
    found behind the letters at the prompt's end; where no field has them, each has to be a line of its own. Options
    that are texts are taken out of the question where it lists them.
    """
    bare = without_cue(text)
    if not are_labels(choices):
        found = _split(bare, LETTERS[: len(choices)], choices)
        return (found[0] if found else bare), tuple(choices)
    labels = [choice.strip(" ().:、．") for choice in choices]
    texts = _of_fields(doc, labels)
    if texts and (found := _split(bare, labels, texts)):
        return found
    found = _split(bare, labels, None)
    if found and texts and not all(text.strip().endswith(line) for text, line in zip(texts, found[1], strict=True)):
        return None  # a field may have "A. Paris", but nothing else than the prompt
    return found


def _split(text: str, labels: Sequence[str], texts: Sequence[str] | None) -> Split | None:
    """Split at the last list of all labels in order, with which the text ends."""
    if texts is None:
        found = _lines(tuple(labels)).match(text)
        question, texts = (found[1], found.groups()[1:]) if found else ("", ())
    else:
        question = _before(text, labels, texts)
    question = _OPTIONS.sub("", question.strip()).strip()
    return (question, tuple(option.strip() for option in texts)) if question else None


def _before(text: str, labels: Sequence[str], texts: Sequence[str]) -> str:
    """Find the text before these texts behind their labels; "" where the text does not end with them."""
    for label, option in reversed(list(zip(labels, texts, strict=True))):
        if not text.rstrip().endswith(option.strip()):
            return ""
        text = text.rstrip().removesuffix(option.strip()).rstrip()
        mark = re.search(rf"[(（\[]?{re.escape(label)}[)）\].:：、．]$", text)
        text = text[: mark.start()] if mark else ""
    return text


@cache
def _lines(labels: tuple[str, ...]) -> re.Pattern[str]:
    parts = [rf"\n\s*[(（\[]?{re.escape(label)}[)）\].:：、．]\s*(\S.*?)" for label in labels]
    return re.compile(rf"(.*){''.join(parts)}\s*$", re.DOTALL)


def _of_fields(doc: Mapping[str, Any], labels: Sequence[str]) -> list[str] | None:
    """Read the texts of options that are labels from the document's fields."""
    for name in _FIELDS:
        value = doc.get(name)
        value = value.get("text") if isinstance(value, Mapping) else value
        if isinstance(value, Sequence) and not isinstance(value, str) and _are_texts(value, len(labels)):
            return list(value)
    found = [doc.get(label) for label in labels]
    return [str(each) for each in found] if _are_texts(found, len(labels)) else None


def _are_texts(values: Sequence[Any], count: int) -> bool:
    return len(values) == count and all(isinstance(value, str) and value.strip() for value in values)
