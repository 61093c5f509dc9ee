"""Commonsense benchmarks: HellaSwag, PIQA, Social IQa and Winogrande."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from evals.formats import At, Format
from evals.items import AnyItem, BrokenItem
from evals.records import Record, Records, checked, label_index, number_index, text, with_labels


class HellaSwag(Format):
    """`{"activity_label", "ctx_a", "ctx_b", "endings": [...], "label"}`: the label is an index from 0. The question is
    the scene after its activity, WikiHow's marks in brackets taken out (as lm-eval does); scenes of one source are a
    cluster."""

    name = "hellaswag"

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """Read one item."""
        endings = record.get("endings")
        if not isinstance(endings, list) or not all(isinstance(ending, str) for ending in endings):
            raise BrokenItem("endings are not a list of texts")
        if record.get("label") in (None, ""):
            raise BrokenItem("no label: the test split is published without")
        answer = number_index(record["label"], at.index_from or 0)
        more = str(record.get("ctx_b") or "").capitalize()
        scene = f"{text(record, 'activity_label')}: {text(record, 'ctx_a')} {more}"
        choices = [without_marks(ending) for ending in endings]
        source = str(record.get("source_id") or "")
        item_id = at.id if record.get("ind") is None else f"{at.file}/{record['ind']}"
        return [checked(item_id, at.lang or self.lang, without_marks(scene), choices, answer, cluster=source)]


def without_marks(value: str) -> str:
    """Strip a text of `[title]`, `[step]` and their like."""
    return re.sub(r"\[.*?\]", "", value.strip().replace(" [title]", ". ")).replace("  ", " ")


class Piqa(Format):
    """`{"goal", "sol1", "sol2"}`, with the right one's index from 0 in `valid-labels.lst` beside `valid.jsonl`, or in
    `label` (Hugging Face)."""

    name = "piqa"

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """Read a record a line."""
        yield from with_labels(path, encoding)

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """Read one item."""
        if record.get("label") is None:
            raise BrokenItem("no label: put the file of labels beside it")
        answer = number_index(record["label"], at.index_from or 0)
        choices = [text(record, "sol1"), text(record, "sol2")]
        return [checked(str(record.get("id") or at.id), at.lang or self.lang, text(record, "goal"), choices, answer)]


class Siqa(Format):
    """`{"context", "question", "answerA", "answerB", "answerC"}`, with the right one's number from 1 in
    `dev-labels.lst` beside `dev.jsonl` or in `label` (Hugging Face), or its letter in `correct`. Questions about one
    context are a cluster."""

    name = "siqa"

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """Read a record a line."""
        yield from with_labels(path, encoding)

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """Read one item."""
        context = text(record, "context")
        choices = [text(record, f"answer{letter}") for letter in "ABC"]
        question = f"{context} {text(record, 'question')}"
        item_id = str(record.get("id") or at.id)
        return [checked(item_id, at.lang or self.lang, question, choices, _answer(record, at), cluster=context)]


def _answer(record: Record, at: At) -> int:
    if record.get("label") is not None:
        return number_index(record["label"], 1 if at.index_from is None else at.index_from)
    if record.get("correct") is not None:
        return label_index(record["correct"])
    raise BrokenItem("no label: put the file of labels beside it")


class Winogrande(Format):
    """`{"qID", "sentence", "option1", "option2", "answer"}`: `_` in the sentence is the gap, the answer 1 or 2. The
    two sentences of a pair are a cluster (their qID is the same up to its last `-`)."""

    name = "winogrande"

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """Read one item."""
        sentence = text(record, "sentence")
        if sentence.count("_") != 1:
            raise BrokenItem("sentence has not one gap")
        choices = [text(record, "option1"), text(record, "option2")]
        answer = number_index(text(record, "answer"), 1 if at.index_from is None else at.index_from)
        item_id = str(record.get("qID") or at.id)
        pair = item_id.rpartition("-")[0] if record.get("qID") else ""
        return [checked(item_id, at.lang or self.lang, sentence, choices, answer, cluster=pair)]
