"""The model writes how it finds the answer, before the answer (Wei et al. 2022; Kojima et al. 2022)."""

import re
from dataclasses import dataclass, replace
from random import Random

from evals.extract import RULES
from evals.items import LETTERS, Item
from evals.question import Draft, Generation, Rendered
from evals.variants import ANNOTATION, QUESTION, GeneratedForm, NotApplicable, after_steps, default_rule, right_answer
from evals.variants.generative import Written

THINK = {"en": "Let's think step by step.", "zh": "让我们一步一步地思考。"}
_END = {"en": "\nThink step by step, and end with \"So the answer is {}.\"",
        "zh": "\n请一步一步地思考，最后写出“所以答案是{}。”"}  # fmt: skip
_STATED = {"letter": "stated_letter", "letters": "stated_letters", "exact": "stated", "number": "last_number"}


class ChainOfThought(Written):
    """The scratch paper of a model: it writes its steps after "Let's think step by step.", and a rule reads the answer
    that it states at their end, not one that the steps mention.

    With `few_shot`, examples show their published solutions, and an item without one, or whose options a variant has
    moved, is none; they end at an empty line, as does the answer. Without, the prompt says how to end. `think`: other
    words to begin with."""

    name = "chain_of_thought"
    think: str | None = None

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        asked = draft.form.asked if isinstance(draft.form, GeneratedForm) else draft.form
        form = ReasonedForm(self.extract, self.stops, self.max_tokens, asked=asked, sampling=self.sampling,
                            think=self.think)  # fmt: skip
        return [replace(draft, form=form)]


@dataclass(frozen=True)
class ReasonedForm(GeneratedForm):
    """The form of `chain_of_thought`."""

    think: str | None = None

    def __call__(self, draft: Draft) -> Rendered:
        """Write the prompt up to the first step."""
        asked = self.prompt(draft)
        return Rendered(self._begun(draft, asked), (), asked.labelled, self.generation(draft, asked))

    def _begun(self, draft: Draft, asked: Rendered) -> str:
        prompt, cue = asked.prompt, draft.cue
        if not draft.few_shot and cue and prompt.endswith(cue):
            example = ("(X)" if draft.lang == "en" else "X") if asked.labelled else "X"
            prompt = f"{prompt.removesuffix(cue)}{_END[draft.lang].format(example)}{cue}"
        return f"{prompt}{draft.separator}{THINK[draft.lang] if self.think is None else self.think}"

    def generation(self, draft: Draft, asked: Rendered) -> Generation:
        """Read the answer that the text states; it ends where the examples do, else where a next question begins."""
        about = super().generation(draft, asked)
        stops = self.stops or (("\n\n",) if draft.few_shot else (QUESTION[draft.lang].strip(),))
        rule = self.rule(draft, asked)
        right = RULES.pick(rule).canonical(right_answer(draft, labelled=asked.labelled))
        among = tuple(map(RULES.pick(rule).canonical, draft.choices)) if about.among else ()
        tokens = self.max_tokens or 512
        return replace(about, extract=rule, answer=right, among=among, stops=stops, max_tokens=tokens)

    def rule(self, draft: Draft, asked: Rendered) -> str:
        """Name the rule that reads what is stated, not what is mentioned."""
        default = default_rule(draft, labelled=asked.labelled)
        return self.extract or _STATED.get(default, default)

    def worked(self, draft: Draft) -> str:
        """Write the steps of a worked example, in one paragraph, and the answer that they lead to."""
        if not draft.solution:
            raise NotApplicable("has no solution to show as a worked example")
        item = draft.item
        if isinstance(item, Item) and (item.mixed or draft.choices != item.choices or draft.labels != LETTERS):
            raise NotApplicable("its solution speaks of the published options")
        asked = self.prompt(draft)
        rule = RULES.pick(self.rule(draft, asked))
        closing = rule.closing(right_answer(draft, labelled=asked.labelled), draft.lang)
        steps = re.sub(r"\n\s*\n", "\n", ANNOTATION.sub("", draft.solution)).strip()
        return after_steps(steps, rule, closing, draft.lang)
