"""The form that lm-eval's task of the same benchmark has, to compare with published numbers item by item."""

from dataclasses import replace
from random import Random
from typing import Literal

from evals.lm_eval import description
from evals.question import Draft, Form, Layout, Rendered
from evals.variants import GeneratedForm, HarnessRequests, NotApplicable, Variant, labelled_form
from evals.variants.cloze import cloze_form


class LmEval(Variant):
    """A benchmark as lm-eval asks it (Gao et al., EleutherAI's evaluation harness); every item, whatever it says.

    `form`: `options` (listed behind letters, a line each; letters are scored: MMLU, C-Eval), `texts` (options' texts
    are scored after the question: ARC, PIQA), `gap` (what follows the gap `_` is scored after each option in it:
    Winogrande), `sentences` (options alone, after nothing: BLiMP), `generated` (GSM8K).
    `before` and `cue`: around the question. `description`: what the prompt begins with; `{subject}` is the item's,
    in words. `description_of`: lm-eval's task that is asked for it, such as `cmmlu_{subject}`. `extract`: of
    generated answers (lm-eval's gsm8k has `gsm8k_strict` and `gsm8k_flexible`)."""

    name = "lm_eval"
    open = True
    several = True
    harness_form = True
    form: Literal["options", "texts", "gap", "sentences", "generated"] = "texts"
    before: str = ""
    cue: str = ""
    description: str = ""
    description_of: str = ""
    extract: str = "gsm8k_strict"

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Ask in this form and layout; an item of lm-eval keeps its own."""
        if isinstance(draft.form, HarnessRequests):
            return [draft]
        if (self.form == "generated") != (not draft.choices):
            raise NotApplicable("has no options" if not draft.choices else "has options")
        if self.form == "gap" and (draft.question.count("_") != 1 or not draft.question.partition("_")[2].strip()):
            raise NotApplicable("question has not one gap with text after it")
        head = self.description
        if self.description_of:
            head = description(self.description_of.replace("{subject}", draft.item.subject))
        layout = Layout(self.before, "\n", ". ", self.cue, " ", head)
        if self.form == "generated":
            form = GeneratedForm(self.extract, ("Question:", "</s>", "<|im_end|>"), 256, True, True)
            return [replace(draft, form=form, layout=layout)]
        return [replace(draft, form=FORMS[self.form], layout=layout)]


class TextsForm:
    """The cloze form, but several of the options' texts may be right."""

    several = True

    def __call__(self, draft: Draft) -> Rendered:
        return cloze_form(draft)


def gap_form(draft: Draft) -> Rendered:
    """Render the sentence with each option in the gap, and score the rest (partial evaluation, Trinh and Le, 2018)."""
    before, _, after = draft.question.partition("_")
    prompts = tuple(before + choice for choice in draft.choices)
    return Rendered(prompts[0], (after.strip(),) * len(prompts), False, None, prompts)


def sentences_form(draft: Draft) -> Rendered:
    """Render nothing, and each option as a text of its own."""
    return Rendered("", draft.choices, False)


FORMS: dict[str, Form] = {"options": labelled_form, "texts": TextsForm(), "gap": gap_form, "sentences": sentences_form}
