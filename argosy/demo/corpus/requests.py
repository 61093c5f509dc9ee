"""How users ask about facts, and the replies that are right."""

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from argosy.demo.data_file import read_yaml
from argosy.demo.facts import Fact
from argosy.demo.phrasings import question, wordings


def request(kind: str, fact: Fact, lang: str, rng: Random) -> str:
    """A question about `fact`, asking for a reply that is short, brief or json."""
    return template(kind, lang, rng).format(question=question(fact, lang, rng))


def template(kind: str, lang: str, rng: Random) -> str:
    """A random request wording of a kind in requests.yaml."""
    choice: str = rng.choice(read_yaml("corpus/requests.yaml")[lang][kind])
    return choice


def sentence(fact: Fact, lang: str, rng: Random, answer: str | None = None) -> str:
    """A short sentence that states the fact, or states `answer` in its place."""
    wording = rng.choice(wordings(fact.relation, lang, "subject_first")[:3])
    text = wording.format(subject=fact.subject[lang], answer=answer or fact.answer[lang])
    return text[0].upper() + text[1:]


def json_answer(answer: str) -> str:
    """The reply that a json request asks for."""
    return json.dumps({"answer": answer}, ensure_ascii=False)


def passes(
    facts: Sequence[Fact], langs: Sequence[str], kinds: Mapping[str, int], count: int, seed: str
) -> Iterator[tuple[Random, Fact, str, str]]:
    """`count` of (rng, fact, lang, kind): passes over all combinations, each in random order.

    A pass has each fact and language `kinds[kind]` times in each kind.
    """
    repeated = [kind for kind, times in kinds.items() for _ in range(times)]
    combinations = [(fact, lang, kind) for fact in facts for lang in langs for kind in repeated]
    if not combinations:
        raise ValueError(f"{len(facts)} facts, langs {list(langs)}, kinds {dict(kinds)}: nothing to ask")
    for start in range(0, count, len(combinations)):
        order = Random(f"{seed}/pass/{start}").sample(combinations, len(combinations))
        for index, (fact, lang, kind) in enumerate(order[: count - start], start):
            yield Random(f"{seed}/{index}"), fact, lang, kind
