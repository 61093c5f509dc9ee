"""What variants change and what the model is asked in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evals.items import LETTERS, Item

CUE = {"en": "\nAnswer:", "zh": "\n答案："}
# Between the cue and an answer; Chinese has no space there.
SEPARATOR = {"en": " ", "zh": ""}


@dataclass(frozen=True)
class Question:
    """One prompt and the continuations that are scored after it.

    Attributes:
        item: id of the item it was made of; all questions of one item share it.
        id: unique in the variant: `<item>` or `<item>#<number>`.
        prompt: the text before the answer, without a space at its end.
        continuations: one an option; the answers' texts, without the space before them.
        gold: index of the right continuation.
        origin: for each continuation the index of the item's choice that it stands for; -1: "none of the others".
        labelled: whether continuations are labels (of options that the prompt lists), not the options' texts.
    """

    item: str
    id: str
    lang: str
    prompt: str
    continuations: tuple[str, ...]
    gold: int
    origin: tuple[int, ...]
    labelled: bool


@dataclass(frozen=True)
class Draft:
    """A question in the making: what a chain of variants works on. `form` renders it at the end."""

    item: Item
    question: str
    choices: tuple[str, ...]
    gold: int
    origin: tuple[int, ...]
    form: Form
    labels: str = LETTERS
    preamble: str = ""  # what is told before the question

    @classmethod
    def of(cls, item: Item, form: Form) -> Draft:
        """The item as it was published."""
        return cls(item, item.question, item.choices, item.answer, tuple(range(len(item.choices))), form)

    @property
    def lang(self) -> str:
        """The item's language."""
        return self.item.lang

    @property
    def own_choices(self) -> list[str]:
        """The options that are the item's, without an added "none of the others"."""
        return [choice for choice, origin in zip(self.choices, self.origin, strict=True) if origin >= 0]

    def render(self, number: int | None) -> Question:
        """The final question; `number` tells the questions of one item apart."""
        question_id = self.item.id if number is None else f"{self.item.id}#{number}"
        prompt, continuations, labelled = self.form(self)
        text = self.preamble + prompt
        return Question(
            self.item.id, question_id, self.lang, text, continuations, self.gold, self.origin, labelled
        )


Rendered = tuple[str, tuple[str, ...], bool]  # prompt, continuations, labelled
Form = Callable[[Draft], Rendered]


def option_mark(label: str, lang: str) -> str:
    """The label before an option: "A. " in English, "A." and "一、" in Chinese."""
    if lang == "en":
        return f"{label}. "
    return f"{label}." if label.isascii() else f"{label}、"


def list_options(draft: Draft) -> str:
    """The options on one line behind their labels."""
    labelled = zip(draft.labels, draft.choices, strict=False)
    return " ".join(option_mark(label, draft.lang) + choice for label, choice in labelled)


def labelled_form(draft: Draft) -> Rendered:
    """The published form: question, options with labels, and the label is scored (MMLU's; OLMES calls it MCF)."""
    prompt = f"{draft.question}\n{list_options(draft)}{CUE[draft.lang]}"
    return prompt, tuple(draft.labels[: len(draft.choices)]), True
