"""ARC (Clark et al., 2018) and OpenBookQA (Mihaylov et al., 2018): questions with labelled options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from evals.formats.fields import checked, label_index, text
from evals.formats.format import At, Format, Record
from evals.items import AnyItem, BrokenItem


class Arc(Format):
    """`{"id", "question": {"stem", "choices": [{"label", "text"}]}, "answerKey"}`, or as Hugging Face has it:
    `question` (OpenBookQA: `question_stem`) and `choices: {"label": [...], "text": [...]}`. Labels are A-E or 1-5; the
    right option is the one whose label is `answerKey`."""

    name: ClassVar[str] = "arc"

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One item."""
        question = record.get("question", record.get("question_stem"))
        inner = question if isinstance(question, Mapping) else {"stem": question, "choices": record.get("choices")}
        labels, texts = _options(inner.get("choices"))
        name = str(record.get("id") or at.id)
        lang = at.lang or self.lang
        return [checked(name, lang, text(inner, "stem"), texts, label_index(text(record, "answerKey"), labels))]


class OpenBookQA(Arc):
    """The same fields as ARC's."""

    name: ClassVar[str] = "openbookqa"


def _options(choices: Any) -> tuple[list[str], list[Any]]:
    """Labels and texts."""
    try:
        if isinstance(choices, Mapping):
            return list(choices["label"]), list(choices["text"])
        return [choice["label"] for choice in choices], [choice["text"] for choice in choices]
    except (TypeError, KeyError):
        raise BrokenItem("choices are not labels with texts") from None
