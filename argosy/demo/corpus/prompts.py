"""Prompts for reinforcement learning whose replies a program can check, about taught facts."""

from collections.abc import Iterator, Sequence
from random import Random

from argosy.demo.corpus.choices import varied_quiz
from argosy.demo.corpus.records import Prompt, user
from argosy.demo.corpus.requests import passes, request
from argosy.demo.facts import LANGS, Fact

# How often a fact is asked in each format during one pass.
FORMATS = {"letter": 1, "text": 4, "json": 3}
FACTS = 40  # few, so that a short training meets each often enough to learn from its reward


def prompts(taught: Sequence[Fact], count: int, seed: str | int, langs: Sequence[str] = LANGS) -> Iterator[Prompt]:
    """`count` prompts about FACTS of `taught`; a pass has FORMATS of each fact and language.

    A reply is right when, stripped, it is one of `accept` (letter, text), or when it is a JSON
    object whose "answer" is one of them (json). `letter` is any label style; without labels
    the answer is the option's text, so such a quiz has format text.
    """
    asked = Random(f"prompts/{seed}/facts").sample(taught, min(FACTS, len(taught)))
    for rng, fact, lang, form in passes(asked, langs, FORMATS, count, f"prompts/{seed}"):
        text, answer, actual = _asked(fact, lang, form, taught, rng)
        stop = "。" if lang == "zh" else "."
        yield {
            "prompt": user(text),
            "answer": answer,
            "accept": [answer] if actual == "json" else [answer, answer + stop],
            "format": actual,
            "lang": lang,
            "fact": fact.id,
        }


def _asked(fact: Fact, lang: str, form: str, taught: Sequence[Fact], rng: Random) -> tuple[str, str, str]:
    """(request, answer, format)"""
    if form != "letter":
        return request("brief" if form == "text" else "json", fact, lang, rng), fact.answer[lang], form
    quiz = varied_quiz(fact, lang, taught, rng, none_share=0.2)
    return quiz.text_prompt, quiz.text_answer.strip(), "letter" if any(quiz.labels) else "text"
