"""Statements of facts and questions about them, from one YAML a relation."""

from random import Random

from argosy.demo.data_file import read_yaml
from argosy.demo.facts import Fact

KINDS = ("subject_first", "answer_first", "questions")


def wordings(relation: str, lang: str, kind: str) -> list[str]:
    """Templates of a relation; `kind` is one of KINDS."""
    templates: list[str] = read_yaml(f"phrasings/{relation}.yaml")[lang][kind]
    return templates


def statement(fact: Fact, lang: str, rng: Random) -> str:
    """A sentence that states the fact, in a random wording of either order."""
    templates = [
        *wordings(fact.relation, lang, "subject_first"),
        *wordings(fact.relation, lang, "answer_first"),
    ]
    return _fill(rng.choice(templates), fact, lang)


def question(fact: Fact, lang: str, rng_or_index: Random | int) -> str:
    """A question whose answer is `fact.answer[lang]`; index 0 is the benchmark's wording."""
    templates = wordings(fact.relation, lang, "questions")
    if isinstance(rng_or_index, int):
        return _fill(templates[rng_or_index], fact, lang)
    return _fill(rng_or_index.choice(templates), fact, lang)


def _fill(template: str, fact: Fact, lang: str) -> str:
    text = template.format(subject=fact.subject[lang], answer=fact.answer[lang])
    return text[0].upper() + text[1:] if lang == "en" else text
