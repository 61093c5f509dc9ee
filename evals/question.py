"""What variants change and what the model is asked in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from evals.items import LETTERS, AnyItem, Item, OpenItem
from evals.layout import CUE, PUBLISHED, SEPARATOR, Generation, Layout
from evals.pool import EMPTY, Pool


@dataclass(frozen=True)
class Question:
    """One prompt and the continuations that are scored after it, or what is generated after it.

    Attributes:
        item: id of the item it was made of; all questions of one item share it.
        id: unique in the variant: `<item>` or `<item>#<number>`.
        prompt: the text before the answer, without a space at its end.
        continuations: one an option; the answers' texts, without the space before them. () where it is generated.
        gold: index of the right continuation or option (0 where the answer is generated and is not one option).
        origin: for each continuation the index of the item's choice that it stands for; -1: "none of the others",
            or "not this one"; below -1: none of its choices.
        labelled: whether continuations are labels (of options that the prompt lists), not the options' texts.
        generation: how the answer is generated, where nothing is scored.
        cluster: what errors are clustered by: the item's cluster, or the item.
        calibration: asked to measure a preference for places alone; accuracies leave it out.
        separator: what stands between the prompt and a continuation; None: what the language has (SEPARATOR).
        prompts: a prompt an option, where options stand in the prompt and what follows is scored (Winogrande's
            partial evaluation); then `prompt` is the first. () where all options follow `prompt`.
        golds: indexes of all right continuations, where several are (TruthfulQA's MC2); else ().
        mixed: whether the item's options have no published order (Item.mixed).
    """

    item: str
    id: str
    lang: str
    prompt: str
    continuations: tuple[str, ...]
    gold: int
    origin: tuple[int, ...]
    labelled: bool
    generation: Generation | None = None
    cluster: str = ""
    calibration: bool = False
    separator: str | None = None
    prompts: tuple[str, ...] = ()
    golds: tuple[int, ...] = ()
    mixed: bool = False

    @property
    def requests(self) -> list[tuple[str, str]]:
        """(prompt, continuation without what stands before it) of each option."""
        prompts = self.prompts or (self.prompt,) * len(self.continuations)
        return list(zip(prompts, self.continuations, strict=True))

    @property
    def before(self) -> str:
        """What stands between the prompt and a continuation, outside of a chat."""
        return SEPARATOR[self.lang] if self.separator is None else self.separator

    @property
    def chance(self) -> float:
        """The accuracy of a guess: 1 / options; 1 / (2^n - 1) for a set of n options; 0 for an open answer."""
        if self.generation is None:
            return max(1, len(self.golds)) / len(self.continuations)
        options = len(self.generation.labels)
        if not options:
            return 0.0
        return 1 / options if self.generation.extract != "letters" else 1 / (2**options - 1)


class Rendered(NamedTuple):
    """What a form makes of a draft."""

    prompt: str
    continuations: tuple[str, ...]
    labelled: bool
    generation: Generation | None = None
    prompts: tuple[str, ...] = ()  # of each option, where they differ


@dataclass(frozen=True)
class Draft:
    """A question in the making: what a chain of variants works on. `form` renders it at the end.

    `golds` has all right options where several are; else it is (). Of an open item `choices` is (), and `answer` and
    `solution` are what a right answer says. `pool` has other items, for what a variant takes from them.
    """

    item: AnyItem
    question: str
    choices: tuple[str, ...]
    gold: int
    origin: tuple[int, ...]
    form: Form
    labels: str = LETTERS
    preamble: str = ""  # what is told before the question
    golds: tuple[int, ...] = ()
    answer: str = ""
    solution: str = ""
    layout: Layout = PUBLISHED
    calibration: bool = False
    shots: int = 0  # worked examples before it: how many, and how they are chosen
    shots_choose: str = "balanced"
    pool: Pool = field(default=EMPTY, repr=False, compare=False)

    @classmethod
    def of(cls, item: AnyItem, form: Form, pool: Pool = EMPTY) -> Draft:
        """The item as it was published."""
        if isinstance(item, OpenItem):
            return cls(item, item.question, (), 0, (), form, answer=item.answer, solution=item.solution, pool=pool)
        golds = item.answers if len(item.answers) > 1 else ()
        origin = tuple(range(len(item.choices)))
        return cls(item, item.question, item.choices, item.answer, origin, form, golds=golds, pool=pool)

    @property
    def lang(self) -> str:
        """The item's language."""
        return self.item.lang

    @property
    def cue(self) -> str:
        """What the prompt ends with."""
        return CUE[self.lang] if self.layout.cue is None else self.layout.cue

    @property
    def own_choices(self) -> list[str]:
        """The options that are the item's, without an added "none of the others"."""
        return [choice for choice, origin in zip(self.choices, self.origin, strict=True) if origin >= 0]

    @property
    def separator(self) -> str:
        """What stands between the cue and an answer."""
        return SEPARATOR[self.lang] if self.layout.separator is None else self.layout.separator

    @property
    def rights(self) -> tuple[int, ...]:
        """Places of all right options."""
        return self.golds or ((self.gold,) if self.choices else ())

    def with_options(self, kept: Sequence[int]) -> Draft:
        """Those options alone, in this order; `kept` has all right ones."""
        golds = tuple(place for place, old in enumerate(kept) if old in self.rights)
        return replace(
            self,
            choices=tuple(self.choices[old] for old in kept),
            origin=tuple(self.origin[old] for old in kept),
            gold=golds[0],
            golds=golds if self.golds else (),
        )

    def render(self, number: int | None, head: str = "") -> Question:
        """The final question; `number` tells the questions of one item apart, `head` (shots) comes before all."""
        rendered = self.form(self)
        before = self.layout.head(self.item.subject) + head + self.preamble
        return Question(
            item=self.item.id,
            id=self.item.id if number is None else f"{self.item.id}#{number}",
            lang=self.lang,
            prompt=before + rendered.prompt,
            continuations=rendered.continuations,
            gold=self.gold,
            origin=self.origin,
            labelled=rendered.labelled,
            generation=rendered.generation,
            cluster=self.item.cluster or self.item.id,
            calibration=self.calibration,
            separator=self.layout.separator,
            prompts=tuple(before + prompt for prompt in rendered.prompts),
            golds=self.golds if rendered.continuations else (),
            mixed=isinstance(self.item, Item) and self.item.mixed,
        )


Form = Callable[[Draft], Rendered]


def option_mark(label: str, lang: str) -> str:
    """The label before an option: "A. " in English, "A." and "一、" in Chinese, "★ " in both."""
    if not label.isalnum():
        return f"{label} "
    if lang == "en":
        return f"{label}. "
    return f"{label}." if label.isascii() else f"{label}、"


def list_options(draft: Draft) -> str:
    """The options behind their labels, on one line or as the layout says."""
    labelled = zip(draft.labels, draft.choices, strict=False)
    mark, lang = draft.layout.mark, draft.lang
    marked = [(option_mark(label, lang) if mark is None else label + mark) + choice for label, choice in labelled]
    return draft.layout.options.join(marked)


def labelled_form(draft: Draft) -> Rendered:
    """The published form: question, options with labels, and the label is scored (MMLU's; OLMES calls it MCF)."""
    prompt = f"{draft.layout.before}{draft.question}\n{list_options(draft)}{draft.cue}"
    return Rendered(prompt, tuple(draft.labels[: len(draft.choices)]), True)


__all__ = [
    "CUE", "SEPARATOR", "Draft", "Form", "Generation", "Layout", "Question", "Rendered", "labelled_form",
    "list_options", "option_mark",
]  # fmt: skip
