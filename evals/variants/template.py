"""A form of one's own, written in a suite's YAML."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from argosy.core.config.explain import shown
from evals.items import LANGS
from evals.question import Draft, Rendered
from evals.variants import NotApplicable, Variant, with_form

Text = Annotated[str, Field(min_length=1)]
Words = Text | Mapping[Literal["en", "zh"], Text]
_PLACE = re.compile(r"\{\{|\}\}|\{(\w+)\}")
ALLOWED = {"prompt": ("question", "options", "subject", "label", "text"),
           "option": ("label", "text", "question"), "answer": ("label", "text")}  # fmt: skip


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values in the places of a template; `{{` and `}}` are braces."""
    return _PLACE.sub(lambda found: values[found[1]] if found[1] else found[0][0], template)


def places(template: str) -> set[str]:
    """Name the places of a template."""
    return {found[1] for found in _PLACE.finditer(template) if found[1]}


@dataclass(frozen=True)
class TemplateForm:
    """A form by templates of one language."""

    several: ClassVar[bool] = False
    prompt: str
    option: str
    between: str
    answer: str

    def __call__(self, draft: Draft) -> Rendered:
        values = {"question": draft.question, "subject": draft.item.subject.replace("_", " ")}
        each = [{**values, "label": label, "text": text}
                for label, text in zip(draft.labels, draft.choices, strict=False)]
        options = self.between.join(fill(self.option, about) for about in each)
        answers = tuple(fill(self.answer, about) for about in each)
        if places(self.prompt) & {"label", "text"}:
            prompts = tuple(fill(self.prompt, {**about, "options": options}) for about in each)
            return Rendered(prompts[0], answers, False, None, prompts)
        shown = "options" in places(self.prompt)
        labelled = shown and "text" not in places(self.answer)
        return Rendered(fill(self.prompt, {**values, "options": options}), answers, labelled, shown=shown)


class Template(Variant):
    """A form of one's own: what the prompt says, how an option is written in it, and which text of an option is scored.

    Each is a text, or one by language (`{en: ..., zh: ...}`; items of another language are left out). `prompt` has
    `{question}`, `{options}`, `{subject}`; with `{label}` or `{text}` there is a prompt for each option, and `answer`
    (such as "Yes") is scored after each. `option`: an option, of `{label}`, `{text}` and `{question}`; `between`:
    between two of them. `answer`: `{label}` (where options show theirs), or `{text}`. `{{` is a brace. With
    `generative` in the chain the answer is written instead. In a chain, `labels`, `none_of_the_others`, `few_shot` and
    the others change what it is made of."""

    name = "template"
    draws = False
    open = True
    several = True
    prompt: Words
    option: Words = "{label}. {text}"
    between: Words = "\n"
    answer: Words | None = None

    @field_validator("prompt", "option", "between", "answer", mode="before")
    @classmethod
    def _in_words(cls, value: Any, info: ValidationInfo) -> Any:
        """Check a text, or the texts by language, in words that no type of Python is in."""
        name = str(info.field_name)
        if name == "answer" and value is None:
            return value
        if isinstance(value, Mapping) and (other := [lang for lang in value if lang not in LANGS] or not value):
            said = f"has the language {other[0]!r}" if isinstance(other, list) else "has no language"
            raise ValueError(f"it {said}, allowed: {', '.join(LANGS)}")
        for lang, text in value.items() if isinstance(value, Mapping) else [("", value)]:
            if not isinstance(text, str) or not text:
                raise ValueError(f"{f'{lang} of it' if lang else 'it'} is {shown(text)}, allowed: a text in quotes "
                                 "that is not empty" + ("" if lang else ", or one by language: {en: TEXT, zh: TEXT}"))
            if unknown := sorted(places(text) - {*ALLOWED.get(name, places(text))}):
                allowed = ", ".join(f"{{{place}}}" for place in ALLOWED[name])
                raise ValueError(f"{name} has {{{unknown[0]}}}; allowed: {allowed}; write {{{{ for a brace")
        return value

    def check_fields(self) -> None:
        for lang in (lang for lang in LANGS if _of(self.prompt, lang)):
            prompt, answer = places(_of(self.prompt, lang) or ""), places(self._answer(lang) or "{text}")
            if "question" not in prompt | places(_of(self.option, lang) or ""):
                raise ValueError("prompt has no {question}: put it where the question stands")
            shown = prompt | (places(_of(self.option, lang) or "") if "options" in prompt else set())
            if answer == {"label"} and "label" not in shown:
                raise ValueError("answer is {label}, and prompt has no {options} that show labels: add them, or let "
                                 "answer be {text}")  # fmt: skip
            if not answer and not prompt & {"label", "text"}:
                raise ValueError("answer is the same for all options: use {label} or {text} in it, or {text} in prompt")

    def _answer(self, lang: str) -> str | None:
        """Return what is scored; by default the label where options show theirs, else the text."""
        if self.answer is not None:
            return _of(self.answer, lang)
        shown = "options" in places(_of(self.prompt, lang) or "") and "label" in places(_of(self.option, lang) or "")
        return "{label}" if shown else "{text}"

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        given = [_of(each, draft.lang) for each in (self.prompt, self.option, self.between)]
        texts = [*given, self._answer(draft.lang)]
        if None in texts:
            raise NotApplicable(f"the template has no text in {draft.lang}")
        form = TemplateForm(*(text or "" for text in texts))
        if not draft.choices and places(form.prompt) & {"options", "label", "text"}:
            raise NotApplicable("has no options, which the template shows")
        return [with_form(draft, form)]


def _of(words: Words, lang: str) -> str | None:
    if isinstance(words, Mapping):
        return {str(key): text for key, text in words.items()}.get(lang)
    return words
