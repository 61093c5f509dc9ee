"""Items of benchmarks; the files they are read from: evals/formats."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

LANGS = ("en", "zh")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class OwnForm:
    """How a task of lm-eval's own asks an item, character by character.

    Attributes:
        prompts: one for all options, or one an option (Winogrande's), without `head`.
        continuations: what is scored of each option, in the item's order, after `separator`.
        head: what the prompt begins with: the task's description, and the examples that its `num_fewshot` asks for.
        description: the first part of it alone.
        labelled: whether continuations are labels of options that the prompt lists.
    """

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
        subject: what few-shot shots and distractors are taken by, such as "anatomy".
        cluster: name that related items share (one passage; one fact in two languages): errors are clustered by it.
        own: how lm-eval asks it, of an item that is from there; `plain` asks it so.
        own_alone: why it can be asked in no other way; "" where it can.
        mixed: whether its options have no published order: ours is one that the id decides.
    """

    id: str
    lang: str
    question: str
    choices: tuple[str, ...]
    answer: int
    answers: tuple[int, ...] = ()
    subject: str = ""
    cluster: str = ""
    own: OwnForm | None = None
    own_alone: str = ""
    mixed: bool = False


@dataclass(frozen=True)
class OpenItem:
    """A question whose answer is generated, not chosen (GSM8K).

    Attributes:
        answer: the final answer alone: "18".
        solution: how one gets there, without the final answer's own line; calculations may be annotated as GSM8K
            does (`<<48/2=24>>`), which `changed_numbers` reads and prompts leave out.
    """

    id: str
    lang: str
    question: str
    answer: str
    solution: str = ""
    subject: str = ""
    cluster: str = ""


AnyItem = Item | OpenItem


@dataclass
class Items:
    """The items of one file, why other lines are not among them (reason -> lines), and which these are: file, place
    among its records (from 1), reason."""

    items: list[AnyItem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[str, int, str]] = field(default_factory=list)

    def reject(self, file: str, record: int, reason: str) -> None:
        """Count a record that is no item, and keep its place."""
        self.left_out[reason] += 1
        self.rejects.append((file, record, reason))


class BrokenItem(Exception):
    """A line is no item; the message is the reason that is counted."""
