"""Items of benchmarks; the files they are read from: evals/formats."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

LANGS = ("en", "zh")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class HarnessForm:
    """The form in which a task of lm-eval asks an item, character by character.

    Attributes:
        prompts: one for all options, or one an option (Winogrande's), without `head`.
        continuations: the scored text of each option, in the item's order, after `separator`.
        head: the beginning of the prompt: the task's description, and the examples that its `num_fewshot` asks for.
        description: the first part of it alone.
        labelled: whether continuations are labels of options that the prompt lists."""

    prompts: tuple[str, ...]
    continuations: tuple[str, ...]
    separator: str
    head: str = ""
    description: str = ""
    labelled: bool = False


@dataclass(frozen=True)
class Item:
    """A question with options of which one is right: `choices[answer]`.

    Attributes:
        answers: indexes of all right options where several are right; then `answer == answers[0]`. Else ().
        subject: few-shot examples and distractors are of the same one; such as "anatomy".
        cluster: name that related items share (one passage; one fact in two languages): errors are clustered by it.
        harness: lm-eval's form of an item of its tasks, which `plain` keeps.
        harness_only: the reason why it can be asked in no other form; "" where it can.
        mixed: whether its options have no published order: ours depends on the id.
        solution: how the answer is found, for worked examples; "" where none is published."""

    id: str
    lang: str
    question: str
    choices: tuple[str, ...]
    answer: int
    answers: tuple[int, ...] = ()
    subject: str = ""
    cluster: str = ""
    harness: HarnessForm | None = None
    harness_only: str = ""
    mixed: bool = False
    solution: str = ""


@dataclass(frozen=True)
class OpenItem:
    """A question whose answer is generated, not chosen (GSM8K).

    Attributes:
        answer: the final answer alone: "18".
        solution: the way to it, without the final answer's own line; calculations may be annotated as GSM8K
            does (`<<48/2=24>>`), which `changed_numbers` reads and prompts leave out."""

    id: str
    lang: str
    question: str
    answer: str
    solution: str = ""
    subject: str = ""
    cluster: str = ""


AnyItem = Item | OpenItem

_DASHES = re.compile(r"[\u2010-\u2015\u2212]")
# Space, but between numbers; a hyphen between words; marks of prose, but within a number (3.5, 12:30). What reckons or
# is code (+ - * / < > = %) stays.
_NO_MATTER = tuple(map(re.compile, (
    r"(?<!\d)\s+|\s+(?!\d)", r"(?<=[^\W\d_]{2})-+(?=[^\W\d_]{2})",
    r"[.,:](?!\d)|(?<!\d)[.,:]|_{2,}|[;!?¡¿…·•、。〃「-】〔-〟\"'`´‘-‟«»‹›《》〈〉()\[\]{}]")))  # fmt: skip


def same_text(text: str) -> str:
    """Strip a text of case, width, space and punctuation; one of nothing else keeps them.

    Texts that become equal ask the same: `Is it 5?` and `is it 5`, `well-known` and `wellknown`, `“a” b` and `ab`.
    Digits, their points and operators differ (3.5 and 35, 2 - 1 and 2 + 1). It is looser than what exact_dedup calls
    a copy (white space and Unicode form alone): there a record is lost by mistake, here a twin that is missed shows
    an item's answer before its question, while one too many costs an example."""
    whole = _DASHES.sub("-", unicodedata.normalize("NFKC", text).casefold())
    bare = whole
    for pattern in _NO_MATTER:
        bare = pattern.sub("", bare)
    return bare or whole.strip()


class Identity(NamedTuple):
    """Identity of an item, whatever its id, its case, width, space and punctuation."""

    question: str
    """"" where it has none apart from its options"""
    options: frozenset[str]
    """options in any order; where there is no question, lm-eval's requests"""
    rights: frozenset[str]
    """options that are right"""

    def shows(self, other: "Identity") -> bool:
        """Tell whether who has seen one with its answer knows the other's: the same question, with the same options
        or the same right one."""
        return self.question == other.question and (self.options == other.options or bool(self.rights & other.rights))


def identity(item: AnyItem) -> Identity:
    """Identify an item."""
    question = same_text(item.question)
    if isinstance(item, OpenItem):
        return Identity(question or item.id, frozenset(), frozenset())
    texts = item.choices
    if not question and (form := item.harness) is not None:
        prompts = form.prompts if len(form.prompts) > 1 else form.prompts * len(form.continuations)
        texts = tuple(f"{prompt} {text}" for prompt, text in zip(prompts, form.continuations, strict=True))
    bare = [same_text(text) for text in texts]
    return Identity(question, frozenset(bare), frozenset(bare[right] for right in item.answers or (item.answer,)))


def mixed(item: Item) -> Item:
    """Put the options in an order that the item's id decides, where the right one is always published at one place;
    lm-eval's form keeps its requests."""
    if item.harness_only:
        return item
    order = list(range(len(item.choices)))
    Random(f"order/{item.id}").shuffle(order)
    rights = tuple(sorted(order.index(right) for right in item.answers))
    form = item.harness
    if form is not None:
        prompts = form.prompts if len(form.prompts) == 1 else tuple(form.prompts[old] for old in order)
        form = replace(form, prompts=prompts, continuations=tuple(form.continuations[old] for old in order))
    return replace(item, choices=tuple(item.choices[old] for old in order), answers=rights, harness=form, mixed=True,
                   answer=rights[0] if rights else order.index(item.answer))  # fmt: skip


@dataclass
class Items:
    """The items of one file, the number of other lines by the reason why they are none, and these lines: file, place
    among its records (from 1), reason. `warnings`: what is strange about them all."""

    items: list[AnyItem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[str, int, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class BrokenItem(Exception):
    """A line is no item; the message is the reason that is counted."""


def merged(parts: Sequence[Items]) -> Items:
    """Join them; a second item of the same id is left out."""
    found, seen = Items(), set()
    for part in parts:
        found.left_out += part.left_out
        found.rejects += part.rejects
        found.warnings += part.warnings
        for item in part.items:
            if item.id in seen:
                found.left_out["id is there twice"] += 1
            else:
                found.items.append(item)
            seen.add(item.id)
    return found
