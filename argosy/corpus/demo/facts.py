"""Well-known facts in English and Chinese: their tables, their split, wordings of each, four-option questions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from random import Random
from typing import Any

import yaml

from argosy.corpus.data.schemas import Lang


@cache
def read_yaml(path: str) -> Any:
    """Parse the YAML at `path` below argosy/corpus/demo/material. The object is shared: do not change it."""
    return yaml.safe_load((resources.files("argosy.corpus.demo") / "material" / path).read_text(encoding="utf-8"))


LANGS: tuple[Lang, ...] = ("en", "zh")

# Boron and carbon are not in the table of symbols: B and C are also option labels.
RELATIONS = ("capital", "symbol", "state_capital", "province_seat", "author", "originator", "artist")

_COLUMNS = ["en_subject", "en_answer", "zh_subject", "zh_answer"]


@dataclass(frozen=True)
class Fact:
    """One (subject, relation, answer) in both languages; `id` is "<relation>/<english-slug>"."""

    id: str
    relation: str
    subject: dict[str, str] = field(hash=False)
    answer: dict[str, str] = field(hash=False)


def load_facts() -> list[Fact]:
    """Read all facts, in the order of RELATIONS and of the rows in each table."""
    found = []
    for relation in RELATIONS:
        path = resources.files("argosy.corpus.demo") / f"material/facts/{relation}.tsv"
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        if header.split("\t") != _COLUMNS:
            raise ValueError(f"{relation}.tsv: columns are {header!r}, expected {_COLUMNS}")
        for line in filter(None, lines):
            en_subject, en_answer, zh_subject, zh_answer = line.split("\t")
            slug = re.sub(r"[^a-z0-9]+", "-", en_subject.removeprefix("the ").lower()).strip("-")
            subject, answer = {"en": en_subject, "zh": zh_subject}, {"en": en_answer, "zh": zh_answer}
            found.append(Fact(f"{relation}/{slug}", relation, subject, answer))
    return found


def split_facts(facts: Sequence[Fact], seed: str | int, fraction: float) -> tuple[list[Fact], list[Fact]]:
    """Return (taught, benchmark): `fraction` of each relation is taught, the rest is the benchmark.

    Quizzes and instructions in training data ask only about taught facts; the benchmark half appears as prose alone."""
    taught_ids: dict[str, None] = {}
    for relation in RELATIONS:
        ids = sorted(fact.id for fact in facts if fact.relation == relation)
        Random(f"split/{seed}/{relation}").shuffle(ids)
        taught_ids.update(dict.fromkeys(ids[: round(len(ids) * fraction)]))
    taught = [fact for fact in facts if fact.id in taught_ids]
    return taught, [fact for fact in facts if fact.id not in taught_ids]


def distractors(fact: Fact, facts: Sequence[Fact], rng: Random, n: int = 3) -> list[dict[str, str]]:
    """Draw `n` wrong answers (language -> text) of the same relation, all different in each language.

    Pass the half that `fact` belongs to: an answer that occurs only as a wrong option would teach that it is wrong."""
    pool = [other.answer for other in facts if other.relation == fact.relation]
    rng.shuffle(pool)
    chosen = [fact.answer]
    for answer in pool:
        if len(chosen) > n:
            break
        if all(answer[lang] != kept[lang] for kept in chosen for lang in LANGS):
            chosen.append(answer)
    if len(chosen) <= n:
        raise ValueError(f"{fact.id}: {len(chosen) - 1} wrong options, {n} are needed")
    return chosen[1:]


def wordings(relation: str, lang: str, kind: str) -> list[str]:
    """Read the templates of a relation; `kind` is subject_first, answer_first or questions."""
    templates: list[str] = read_yaml(f"phrasings/{relation}.yaml")[lang][kind]
    return templates


def statement(fact: Fact, lang: str, rng: Random) -> str:
    """State the fact in a sentence, in a random wording of either order."""
    templates = wordings(fact.relation, lang, "subject_first") + wordings(fact.relation, lang, "answer_first")
    return _fill(rng.choice(templates), fact, lang)


def question(fact: Fact, lang: str, rng_or_index: Random | int) -> str:
    """Ask for `fact.answer[lang]`; index 0 is the benchmark's wording."""
    templates = wordings(fact.relation, lang, "questions")
    if isinstance(rng_or_index, int):
        return _fill(templates[rng_or_index], fact, lang)
    return _fill(rng_or_index.choice(templates), fact, lang)


def _fill(template: str, fact: Fact, lang: str) -> str:
    text = template.format(subject=fact.subject[lang], answer=fact.answer[lang])
    return text[0].upper() + text[1:] if lang == "en" else text


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


def render_quiz(question: str, options: Sequence[str], answer_index: int, lang: str, labels: str = "letters",
                layout: str = "plain") -> Quiz:
    """Lay out the options; with labels "none" the answer is the option's text."""
    data = read_yaml("phrasings/layouts.yaml")
    form, names = data[lang], data["labels"][labels][: len(options)]
    mark = form["mark"][labels]
    items = [mark.format(label=name) + text for name, text in zip(names, options, strict=True)]
    joint = form["joint"]["unlabelled" if labels == "none" else "labelled"]
    prompt = form["layouts"][layout].format(question=question, options=joint.join(items), option_lines="\n".join(items))
    answer = names[answer_index] or options[answer_index]
    return Quiz(question=question, options=tuple(options), labels=tuple(names), answer_index=answer_index,
                text_prompt=prompt, text_answer=form["before_answer"] + answer)


def quiz(fact: Fact, lang: str, facts: Sequence[Fact], rng: Random, labels: str = "letters", layout: str = "plain",
         drop_right: bool = False, none_option: bool = False, wording: int | None = None) -> Quiz:
    """Make a quiz about `fact` with wrong options from `facts`, the right one at a random place.

    Args:
        none_option: the last option is "none of the others" (and wrong).
        drop_right: that is the last option and right, since the right one was left out.
        wording: a question's index."""
    text = question(fact, lang, rng if wording is None else wording)
    count = 2 if none_option and not drop_right else 3
    options = [answer[lang] for answer in distractors(fact, facts, rng, count)]
    if not drop_right:
        options.append(fact.answer[lang])
        rng.shuffle(options)
    if drop_right or none_option:
        options.append(read_yaml("phrasings/layouts.yaml")[lang]["none_of_the_others"])
    index = len(options) - 1 if drop_right else options.index(fact.answer[lang])
    return render_quiz(text, options, index, lang, labels, layout)


# Half of the quizzes are in letters; a third offer "none of the others", right in half of these.
_LABELS = (*LABELS, "letters", "letters", "letters")


def varied_quiz(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random, none_share: float = 0.3) -> Quiz:
    """Make a quiz in random wording, labels and layout; a `none_share` has a none-of-the-others option."""
    labels, layout = rng.choice(_LABELS), rng.choice(LAYOUTS)
    offers_none = rng.random() < none_share
    drop_right = offers_none and rng.random() < 0.5
    return quiz(fact, lang, taught, rng, labels, layout, drop_right=drop_right, none_option=offers_none)
