"""Conversations for supervised tuning; those about facts are about taught ones alone."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from argosy.demo.corpus.choices import varied_quiz
from argosy.demo.corpus.records import Conversation, assistant, user
from argosy.demo.corpus.requests import json_answer, passes, request, sentence, template
from argosy.demo.data_file import read_yaml
from argosy.demo.facts import LANGS, Fact, distractors
from argosy.demo.phrasings import Quiz, question, render_quiz

Exchange = tuple[str, str]

# How often a fact is asked in each kind during one pass.
KINDS = {
    "short_answer": 2,
    "brief_answer": 6,
    "choice": 1,
    "choice_permuted": 1,
    "choice_none": 1,
    "json": 2,
    "copy": 1,
    "list": 1,
}


def conversations(
    taught: Sequence[Fact], count: int, seed: str | int, langs: Sequence[str] = LANGS
) -> Iterator[Conversation]:
    """`count` conversations of one exchange; a pass has KINDS of each fact and language."""
    for rng, fact, lang, kind in passes(taught, langs, KINDS, count, f"instructions/{seed}"):
        asked, answered = _MAKERS[kind](fact, lang, taught, rng)
        messages = [*user(asked), *assistant(answered)]
        yield {"messages": messages, "lang": lang, "kind": kind, "fact": fact.id}


def permuted_quiz(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Quiz:
    """The plain form, with the same four options each time and their order from `rng`."""
    wrong = distractors(fact, taught, Random(f"permuted/{fact.id}"))
    options = [answer[lang] for answer in [fact.answer, *wrong]]
    rng.shuffle(options)
    return render_quiz(question(fact, lang, 0), options, options.index(fact.answer[lang]), lang)


def _short_answer(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Exchange:
    return request("short", fact, lang, rng), sentence(fact, lang, rng)


def _brief_answer(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Exchange:
    return request("brief", fact, lang, rng), fact.answer[lang]


def _choice(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Exchange:
    return _exchange(varied_quiz(fact, lang, taught, rng, none_share=0.0))


def _choice_permuted(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Exchange:
    return _exchange(permuted_quiz(fact, lang, taught, rng))


def _choice_none(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Exchange:
    return _exchange(varied_quiz(fact, lang, taught, rng, none_share=1.0))


def _exchange(quiz: Quiz) -> Exchange:
    return quiz.text_prompt, quiz.text_answer.strip()


def _json(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Exchange:
    return request("json", fact, lang, rng), json_answer(fact.answer[lang])


def _copy(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Exchange:
    text = sentence(fact, lang, rng)
    return template("copy", lang, rng).format(text=text), text


def _list(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Exchange:
    items = [other.subject[lang] for other in rng.sample(taught, 2)] + [fact.subject[lang]]
    joint = read_yaml("corpus/requests.yaml")[lang]["joint"]
    return template("list", lang, rng).format(items=joint.join(items)), "\n".join(items)


_MAKERS: dict[str, Callable[[Fact, str, Sequence[Fact], Random], Exchange]] = {
    "short_answer": _short_answer,
    "brief_answer": _brief_answer,
    "choice": _choice,
    "choice_permuted": _choice_permuted,
    "choice_none": _choice_none,
    "json": _json,
    "copy": _copy,
    "list": _list,
}
