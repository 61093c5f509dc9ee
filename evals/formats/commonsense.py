"""Commonsense benchmarks: HellaSwag, PIQA, Social IQa and Winogrande."""

import re
from collections.abc import Iterable
from pathlib import Path

from evals.formats import At, Format
from evals.items import AnyItem, BrokenItem
from evals.records import Fields, Record, Records, text, with_labels


class HellaSwag(Format):
    """`{"activity_label", "ctx_a", "ctx_b", "endings": [...], "label"}`: the label is an index from 0. The question is
    the scene after its activity, less WikiHow's marks in brackets (as in lm-eval); a source is a cluster."""

    name = "hellaswag"
    fields = Fields(choices="endings", answer="label", cluster="source_id")
    first = 0

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        if record.get("label") in (None, ""):
            raise BrokenItem("no label: the test split is published without")
        more = str(record.get("ctx_b") or "").capitalize()
        scene = f"{text(record, 'activity_label')}: {text(record, 'ctx_a')} {more}"
        endings = [without_marks(each) if isinstance(each, str) else each for each in record.get("endings") or ()]
        own_id = "" if record.get("ind") is None else f"{at.file}/{record['ind']}"
        return [self.item({**record, "endings": endings}, at, question=without_marks(scene), id=own_id)]


def without_marks(value: str) -> str:
    """Strip a text of `[title]`, `[step]` and their like."""
    return re.sub(r"\[.*?\]", "", value.strip().replace(" [title]", ". ")).replace("  ", " ")


class Piqa(Format):
    """`{"goal", "sol1", "sol2"}`, with the right one's index from 0 in `valid-labels.lst` beside `valid.jsonl`, or in
    `label` (Hugging Face)."""

    name = "piqa"
    fields = Fields(question="goal", choices=("sol1", "sol2"), answer="label")
    first = 0

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        yield from with_labels(path, encoding)

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        if record.get("label") is None:
            raise BrokenItem("no label: put the file of labels beside it")
        return [self.item(record, at)]


class Siqa(Piqa):
    """`{"context", "question", "answerA", "answerB", "answerC"}`, with the right one's number from 1 in
    `dev-labels.lst` beside `dev.jsonl` or in `label` (Hugging Face), or its letter in `correct`. Questions about one
    context are a cluster."""

    name = "siqa"
    fields = Fields(choices=("answerA", "answerB", "answerC"), answer="label", cluster="context")
    first = 1

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        question = f"{text(record, 'context')} {text(record, 'question')}"
        label = record.get("correct") if record.get("label") is None else record["label"]
        return super().parse({**record, "question": question, "label": label}, at)


class Winogrande(Format):
    """`{"qID", "sentence", "option1", "option2", "answer"}`: `_` in the sentence is the gap, the answer 1 or 2. The
    two sentences of a pair are a cluster (their qID is the same up to its last `-`)."""

    name = "winogrande"
    fields = Fields(question="sentence", choices=("option1", "option2"), id="qID")
    first = 1

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        if text(record, "sentence").count("_") != 1:
            raise BrokenItem("sentence has not one gap")
        answer, pair = text(record, "answer"), str(record.get("qID") or "").rpartition("-")[0]
        return [self.item({**record, "answer": answer}, at, cluster=pair)]
