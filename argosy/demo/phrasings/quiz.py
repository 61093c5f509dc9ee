"""Four-option questions in several layouts and label styles."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from argosy.demo.data_file import read_yaml
from argosy.demo.facts import Fact, distractors
from argosy.demo.phrasings.wording import question as ask

LABELS = ("letters", "numerals", "stems", "digits", "none")
LAYOUTS = ("plain", "lines", "headed", "headed_lines", "asked")


@dataclass(frozen=True)
class Quiz:
    """A rendered quiz. `text_prompt + text_answer` is the whole text."""

    question: str
    options: tuple[str, ...]
    labels: tuple[str, ...]
    answer_index: int
    text_prompt: str
    text_answer: str


def render_quiz(
    question: str,
    options: Sequence[str],
    answer_index: int,
    lang: str,
    labels: str = "letters",
    layout: str = "plain",
) -> Quiz:
    """Lay out given options; with labels "none" the answer is the option's text."""
    if labels not in LABELS or layout not in LAYOUTS:
        raise ValueError(f"labels is {labels!r}, allowed: {LABELS}; layout is {layout!r}, allowed: {LAYOUTS}")
    data = read_yaml("phrasings/layouts.yaml")
    form, names = data[lang], data["labels"][labels][: len(options)]
    mark = form["mark"][labels]
    items = [mark.format(label=name) + text for name, text in zip(names, options, strict=True)]
    joint = form["joint"]["unlabelled" if labels == "none" else "labelled"]
    prompt = form["layouts"][layout].format(question=question, options=joint.join(items), option_lines="\n".join(items))
    answer = names[answer_index] or options[answer_index]
    return Quiz(
        question=question,
        options=tuple(options),
        labels=tuple(names),
        answer_index=answer_index,
        text_prompt=prompt,
        text_answer=form["before_answer"] + answer,
    )


def quiz(
    fact: Fact,
    lang: str,
    facts: Sequence[Fact],
    rng: Random,
    labels: str = "letters",
    layout: str = "plain",
    drop_right: bool = False,
    none_option: bool = False,
    wording: int | None = None,
) -> Quiz:
    """A quiz about `fact` with wrong options from `facts`, the right one at a random place.

    `none_option`: the last option is "none of the others" (and wrong). `drop_right`: it is
    the last option and right, since the right one was left out. `wording`: a question's index.
    """
    text = ask(fact, lang, rng if wording is None else wording)
    count = 2 if none_option and not drop_right else 3
    options = [answer[lang] for answer in distractors(fact, facts, rng, count)]
    if not drop_right:
        options.append(fact.answer[lang])
        rng.shuffle(options)
    if drop_right or none_option:
        options.append(read_yaml("phrasings/layouts.yaml")[lang]["none_of_the_others"])
    index = len(options) - 1 if drop_right else options.index(fact.answer[lang])
    return render_quiz(text, options, index, lang, labels, layout)
