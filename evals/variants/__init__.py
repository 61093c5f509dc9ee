"""Variants of benchmarks: their base class, the scan that finds them, their forms, and items they must leave alone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import ClassVar

import yaml

from argosy.core.config.schema import Config
from argosy.core.plugins import Folder
from argosy.corpus.text.values import is_number
from evals.extract import RULES, Rule
from evals.extract.listed import stand_in_order
from evals.items import Item
from evals.question import SEPARATOR, Draft, Form, Generation, Rendered


class NotApplicable(Exception):
    """A variant cannot be made of this item; the message is the reason that is counted."""


OF_OTHERS = "an option speaks of the other options"


class Variant(Config):
    """Base of variants, whose fields are their parameters: one file each, found by being there."""

    name: ClassVar[str] = ""
    """The name that suites write; without one a class is a base of others."""
    draws: ClassVar[bool] = True
    """Whether `apply` takes anything from `rng`."""
    open: ClassVar[bool] = False
    """Whether items without options can be asked."""
    several: ClassVar[bool] = False
    """Whether items with several right options can be asked."""
    independent: ClassVar[bool] = False
    """Whether it moves, renames or drops options, so that none of them may speak of the others."""
    reorders: ClassVar[bool] = False
    """Whether an added option that speaks of those above it would stand elsewhere."""
    knowledge: ClassVar[bool] = True
    """Whether it asks for a model's knowledge, and so counts in the headline of a comparison; not for reading a given
    answer, nor for refusing options."""
    learns: ClassVar[bool] = False
    """Whether it asks copies of the checkpoint that have learnt the items, not the checkpoint."""
    harness_form: ClassVar[bool] = False
    """Whether an item of a task of lm-eval keeps the form in which lm-eval asks it."""

    @property
    def directed(self) -> bool:
        """Whether its metrics are better one way; not where a model that always gives one answer gains."""
        return True

    @property
    def as_example(self) -> "Variant":
        """The variant that a worked example goes through in its place."""
        return self

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Change a draft into one or several, each with exactly one right option. All that is drawn comes from `rng`,
        which the seed and the item's id feed. Raises NotApplicable: this item does not allow it."""
        raise NotImplementedError


VARIANTS: Folder[type[Variant]] = Folder("variant", Variant, __name__)

_PATTERNS = yaml.safe_load(Path(__file__).with_name("patterns.yaml").read_text(encoding="utf-8"))
_OPTION, _STEM, _RELATIVE, _JUDGED, _NEGATED, _ANY_TRUTH = (
    re.compile("|".join(_PATTERNS[name]), re.IGNORECASE)
    for name in ("option", "stem", "relative", "judged", "negated", "any_truth"))
_ABOVE = re.compile(r"\babove\b|以上|上述", re.IGNORECASE)


@lru_cache(maxsize=1 << 16)  # every variant of an item asks again
def options_refer_to_options(choices: tuple[str, ...]) -> bool:
    """Tell whether an option is about other options or their labels, so that dropping or moving one matters."""
    return any(_OPTION.search(choice) for choice in choices)


def added_about_others(choices: Sequence[str], origin: Sequence[int], *, above: bool = False) -> bool:
    """Tell whether an option that a variant added is about the others; `above`: about those that stand before it."""
    added = tuple(choice for choice, old in zip(choices, origin, strict=True) if old < 0)
    return any(_ABOVE.search(choice) for choice in added) if above else options_refer_to_options(added)


@lru_cache(maxsize=1 << 16)
def all_named(question: str, choices: tuple[str, ...]) -> bool:
    """Tell whether a question names all the options in their order ("is 3 or 4 larger?"), so that one that a variant
    drops is still to be read."""
    return stand_in_order(question, choices)


def refers_to_options(question: str, choices: tuple[str, ...]) -> bool:
    """Tell whether the question cannot be answered without seeing the options, or an option is about others."""
    return bool(_STEM.search(question)) or options_refer_to_options(choices)


def right_among_others(question: str) -> bool:
    """Tell whether the right option is the best of those shown, so that without it another one would be."""
    return bool(_JUDGED.search(question) or (_RELATIVE.search(question) and _STEM.search(question)))


def any_text_may_be_right(question: str) -> bool:
    """Tell whether an option of another question may be right here: it asks for a false statement, for the best, or for
    any true one."""
    return any(kind.search(question) for kind in (_NEGATED, _RELATIVE, _ANY_TRUTH))


QUESTION = {"en": "Question: ", "zh": "问题："}
ANNOTATION = re.compile(r"<<[^<>]*>>")
_SHORT, _TEXT, _LONG = 16, 64, 256  # tokens of a label, of an option's text, and of a worked solution


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
    asked: Form | None = None  # the form whose prompt is written; None: the published one
    sampling: tuple[int, float, tuple[int, ...]] = (1, 0.0, ())  # samples, temperature, pass_at of a Generation

    def __call__(self, draft: Draft) -> Rendered:
        """Write the prompt, and say what is generated after it; nothing is scored."""
        asked = self.prompt(draft)
        return Rendered(asked.prompt, (), asked.labelled, self.generation(draft, asked))

    def prompt(self, draft: Draft) -> Rendered:
        """Write the prompt as the form does that is asked."""
        if self.asked is None and not draft.choices:
            before = draft.layout.before or QUESTION[draft.lang]
            return Rendered(f"{before}{draft.question}{draft.cue}", (), False)
        asked = (self.asked or labelled_form)(draft)
        if asked.prompts:
            raise NotApplicable("its form has a prompt for each option: nothing is to be generated after it")
        return asked

    def generation(self, draft: Draft, asked: Rendered) -> Generation:
        """Say how the answer is generated and read."""
        labels = draft.labels[: len(draft.choices)] if asked.labelled else ""
        name = self.extract or default_rule(draft, labelled=asked.labelled)
        short = bool(draft.choices) or not (self.solution and draft.solution)
        stops = self.stops if self.stops is not None else (("\n",) if short else (QUESTION[draft.lang].strip(),))
        tokens = self.max_tokens or (_SHORT if labels else _LONG if not draft.choices else _TEXT)
        rule, answer = RULES.pick(name), right_answer(draft, labelled=asked.labelled)
        among = tuple(map(rule.canonical, draft.choices)) if asked.shown and draft.choices and not labels else ()
        return Generation(rule.canonical(answer), stops, tokens, name, labels, among, *self.sampling)

    def worked(self, draft: Draft) -> str:
        """Write a worked example's text after the cue: the labels, or the solution with the end that the rule reads."""
        asked = self.prompt(draft)
        if draft.choices and not (self.extract or draft.golds):
            return asked.continuations[draft.gold]
        rule = RULES.pick(self.extract or default_rule(draft, labelled=asked.labelled))
        closing = rule.closing(right_answer(draft, labelled=asked.labelled), draft.lang)
        if draft.choices or not (self.solution and draft.solution):
            return closing
        steps = draft.solution if self.annotations else ANNOTATION.sub("", draft.solution)
        return after_steps(steps, rule, closing, draft.lang)


def after_steps(steps: str, rule: Rule, closing: str, lang: str) -> str:
    """Write the steps of a worked example, and the answer where its rule reads it."""
    return f"{steps}{chr(10) if rule.own_line else SEPARATOR[lang]}{closing}"


def right_answer(draft: Draft, *, labelled: bool) -> str:
    """Join the labels of the right options, or return the answer's text."""
    if labelled:
        return "".join(draft.labels[place] for place in draft.rights)
    return draft.choices[draft.gold] if draft.choices else draft.answer


def default_rule(draft: Draft, *, labelled: bool) -> str:
    """Name the rule for the item's kind of answer: labels, a number at the end of a solution, or a text."""
    if labelled:
        return "letters" if draft.golds else "letter"
    if draft.choices:
        if draft.golds:
            raise NotApplicable("has several right options, whose labels its form does not show")
        return "exact"
    return "last_number" if is_number(draft.answer) else "stated" if draft.solution else "exact"


open_form = GeneratedForm()


def with_form(draft: Draft, form: Form) -> Draft:
    """Ask a draft in another form; where its answer is generated, it still is."""
    if isinstance(draft.form, GeneratedForm):
        return replace(draft, form=replace(draft.form, asked=form))
    return replace(draft, form=form)


class HarnessRequests:
    """The requests that lm-eval's harness makes of an item of one of its tasks."""

    several: ClassVar[bool] = True

    def __call__(self, draft: Draft) -> Rendered:
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
