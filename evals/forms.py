"""Forms that render a draft: labelled options, a generated answer, the form of a task of lm-eval."""

import re
from dataclasses import dataclass
from typing import ClassVar

from argosy.corpus.text.values import is_number
from evals.extract import RULES
from evals.items import Item
from evals.question import Draft, Generation, Rendered

QUESTION = {"en": "Question: ", "zh": "问题："}
ANNOTATION = re.compile(r"<<[^<>]*>>")
_SHORT, _LONG = 16, 256  # tokens of a label, and of a worked solution


@dataclass(frozen=True)
class GeneratedForm:
    """Question (and options with labels, where it has some), and the answer is generated.

    `extract`, `stops` and `max_tokens` are by default what the item needs: labels end with their line; a solution is
    256 tokens at most and ends where the next question would begin (as in lm-eval's gsm8k)."""

    extract: str = ""
    stops: tuple[str, ...] | None = None
    max_tokens: int = 0
    solution: bool = True  # worked examples show how the answer is found
    annotations: bool = False  # with its <<calculations>>

    def __call__(self, draft: Draft) -> Rendered:
        """Write the prompt, and say what is generated after it; nothing is scored."""
        asked = draft.layout.before or (QUESTION[draft.lang] if not draft.choices else "")
        options = f"\n{list_options(draft)}" if draft.choices else ""
        generation = self.generation(draft)
        return Rendered(f"{asked}{draft.question}{options}{draft.cue}", (), bool(draft.choices), generation)

    def generation(self, draft: Draft) -> Generation:
        """Say how the answer is generated and read."""
        name = self.extract or default_rule(draft)
        short = bool(draft.choices) or not (self.solution and draft.solution)
        stops = self.stops if self.stops is not None else (("\n",) if short else (QUESTION[draft.lang].strip(),))
        tokens = self.max_tokens or (_SHORT if draft.choices else _LONG)
        answer, labels = RULES.pick(name).canonical(_right(draft)), draft.labels[: len(draft.choices)]
        return Generation(answer, stops, tokens, name, labels)

    def worked(self, draft: Draft) -> str:
        """Write a worked example's text after the cue: the labels, or the solution with the end that the rule reads."""
        closing = RULES.pick(self.extract or default_rule(draft)).closing(_right(draft), draft.lang)
        if draft.choices or not (self.solution and draft.solution):
            return closing
        steps = draft.solution if self.annotations else ANNOTATION.sub("", draft.solution)
        return f"{steps}\n{closing}"


def _right(draft: Draft) -> str:
    """Join the labels of the right options, or return the answer."""
    return "".join(draft.labels[place] for place in draft.rights) if draft.choices else draft.answer


def default_rule(draft: Draft) -> str:
    """Name the rule for the item's kind of answer: labels, a number at the end of a solution, or a text."""
    if draft.choices:
        return "letters" if draft.golds else "letter"
    return "last_number" if is_number(draft.answer) else "stated" if draft.solution else "exact"


open_form = GeneratedForm()


class HarnessRequests:
    """The requests that lm-eval's harness makes of an item of one of its tasks."""

    several: ClassVar[bool] = True

    def __call__(self, draft: Draft) -> Rendered:
        """Give prompt and continuations."""
        own = draft.item.harness if isinstance(draft.item, Item) else None
        if own is None:
            raise ValueError(f"item {draft.item.id} is not of a task of lm-eval")
        prompts = own.prompts if len(own.prompts) > 1 else ()
        return Rendered(own.prompts[0], own.continuations, own.labelled, None, prompts)


def option_mark(label: str, lang: str) -> str:
    """Write the label before an option: "A. " in English, "A." and "一、" in Chinese, "★ " in both."""
    if not label.isalnum():
        return f"{label} "
    if lang == "en":
        return f"{label}. "
    return f"{label}." if label.isascii() else f"{label}、"


def list_options(draft: Draft) -> str:
    """Write the options behind their labels, on one line or as the layout says."""
    labelled = zip(draft.labels, draft.choices, strict=False)
    mark, lang = draft.layout.mark, draft.lang
    marked = [(option_mark(label, lang) if mark is None else label + mark) + choice for label, choice in labelled]
    return draft.layout.options.join(marked)


def labelled_form(draft: Draft) -> Rendered:
    """Render the published form: question, options with labels; the label is scored (MMLU's; MCF in OLMES)."""
    prompt = f"{draft.layout.before}{draft.question}\n{list_options(draft)}{draft.cue}"
    return Rendered(prompt, tuple(draft.labels[: len(draft.choices)]), True)
