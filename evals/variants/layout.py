"""How a prompt is laid out, as a benchmark's published form has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from evals.question import Draft, Layout
from evals.variants.registry import NotApplicable

_BETWEEN = {"line": " ", "lines": "\n"}


@dataclass(frozen=True)
class LayoutVariant:
    """Texts around question and options. MMLU's: `{options: lines, description: "The following are multiple choice
    questions (with answers) about {subject}.\\n\\n"}`; ARC's: `[cloze, {layout: {before: "Question: "}}]`.

    `before`: before each question. `options`: on one `line`, or on `lines`. `mark`: after a label. `cue`: what the
    prompt ends with. `separator`: between cue and answer. `description`: what it begins with, once; `{subject}` is
    the item's. What is not given is as the language has it.
    """

    name: ClassVar[str] = "layout"
    draws: ClassVar[bool] = False
    open: ClassVar[bool] = True
    several: ClassVar[bool] = True
    before: str = ""
    options: str = "line"
    mark: str | None = None
    cue: str | None = None
    separator: str | None = None
    description: str = ""

    def __post_init__(self) -> None:
        if self.options not in _BETWEEN:
            raise ValueError(f"options is {self.options!r}; allowed: {', '.join(_BETWEEN)}")

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """The draft with this layout."""
        if "{subject}" in self.description and not draft.item.subject:
            raise NotApplicable("has no subject, which the layout's description tells")
        layout = Layout(
            self.before, _BETWEEN[self.options], self.mark, self.cue, self.separator, self.description
        )
        return [replace(draft, layout=layout)]
