"""The published form, unchanged or with a benchmark's own layout."""

from dataclasses import replace
from random import Random
from typing import Literal

from evals.question import Draft, Layout
from evals.variants import NotApplicable, Variant


class Plain(Variant):
    """Question, options behind A, B, C, D, and the letter is scored (MCF): what is compared with published numbers.

    An item without options is asked, and its answer generated (`GeneratedForm`). One of a task of lm-eval is asked
    as that task does."""

    name = "plain"
    draws = False
    open = True
    several = True
    harness_form = True

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        return [draft]


_BETWEEN = {"line": " ", "lines": "\n"}


class LayoutVariant(Variant):
    """Texts around question and options. MMLU's: `{options: lines, description: "The following are multiple choice
    questions (with answers) about {subject}.\\n\\n"}`; ARC's: `[cloze, {layout: {before: "Question: "}}]`.

    `before`: before each question. `options`: on one `line`, or on `lines`. `mark`: after a label. `cue`: what the
    prompt ends with. `separator`: between cue and answer. `description`: what it begins with, once; `{subject}` is
    the item's. What is not given is as the language has it."""

    name = "layout"
    draws = False
    open = True
    several = True
    before: str = ""
    options: Literal["line", "lines"] = "line"
    mark: str | None = None
    cue: str | None = None
    separator: str | None = None
    description: str = ""

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        if "{subject}" in self.description and not draft.item.subject:
            raise NotApplicable("has no subject, which the layout's description tells")
        layout = Layout(self.before, _BETWEEN[self.options], self.mark, self.cue, self.separator, self.description)
        return [replace(draft, layout=layout)]
