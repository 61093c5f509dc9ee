"""How prompts are laid out, and how answers are generated: what a question is made with."""

from __future__ import annotations

from dataclasses import dataclass

CUE = {"en": "\nAnswer:", "zh": "\n答案："}
# Between the cue and an answer; Chinese has no space there.
SEPARATOR = {"en": " ", "zh": ""}


@dataclass(frozen=True)
class Generation:
    """How an answer is generated and read.

    Attributes:
        answer: the right answer: a label ("B"), several ("AC"), or a text or number ("18").
        stops: texts that end it; they are no part of it.
        max_tokens: how many tokens are generated at most.
        extract: name of the rule (a file of evals/extract) that finds the answer in the text.
        labels: the labels that the prompt lists; "" where there are no options.
    """

    answer: str
    stops: tuple[str, ...]
    max_tokens: int
    extract: str
    labels: str = ""


@dataclass(frozen=True)
class Layout:
    """How prompts are laid out. The default is the demo corpus's; benchmarks have their own (variant `layout`).

    Attributes:
        before: text before each question, such as "Question: ".
        options: between options: " " (all on one line) or a line's end.
        mark: after a label, such as ". "; None: as the language writes it.
        cue: after question and options; None: CUE.
        separator: between cue and answer; None: SEPARATOR.
        description: what a prompt begins with, once, before shots; `{subject}` is the item's.
        head_text: the same, as it stands.
    """

    before: str = ""
    options: str = " "
    mark: str | None = None
    cue: str | None = None
    separator: str | None = None
    description: str = ""
    head_text: str = ""

    def head(self, subject: str) -> str:
        """The description of a subject such as "college_biology"."""
        return self.head_text + self.description.replace("{subject}", subject.replace("_", " "))


PUBLISHED = Layout()
