"""Preference pairs about taught facts: right over wrong, concise over rambling, asked-for format over other."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from argosy.demo.corpus.choices import varied_quiz
from argosy.demo.corpus.records import Preference, assistant, user
from argosy.demo.corpus.requests import json_answer, passes, request, sentence
from argosy.demo.data_file import read_yaml
from argosy.demo.facts import LANGS, Fact, distractors

Pair = tuple[str, str, str]

# How often a fact is asked in each kind during one pass.
KINDS = {"correct": 2, "letter": 2, "concise": 1, "format": 1}


def preferences(
    taught: Sequence[Fact], count: int, seed: str | int, langs: Sequence[str] = LANGS
) -> Iterator[Preference]:
    """`count` pairs; a pass has KINDS of each fact and language."""
    for rng, fact, lang, kind in passes(taught, langs, KINDS, count, f"preferences/{seed}"):
        prompt, chosen, rejected = _MAKERS[kind](fact, lang, taught, rng)
        yield {
            "prompt": user(prompt),
            "chosen": assistant(chosen),
            "rejected": assistant(rejected),
            "lang": lang,
            "kind": kind,
            "fact": fact.id,
        }


def _correct(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Pair:
    """The same sentence with the right and with a wrong answer."""
    prompt, wording = request("short", fact, lang, rng), f"wording/{rng.random()}"
    wrong = distractors(fact, taught, rng, 1)[0][lang]
    return prompt, sentence(fact, lang, Random(wording)), sentence(fact, lang, Random(wording), wrong)


def _letter(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Pair:
    """The right and a wrong label (or option text) of a quiz."""
    quiz = varied_quiz(fact, lang, taught, rng, none_share=0.2)
    names = [name or option for name, option in zip(quiz.labels, quiz.options, strict=True)]
    chosen = names.pop(quiz.answer_index)
    return quiz.text_prompt, chosen, rng.choice(names)


def _concise(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Pair:
    """One sentence, and the same lost among empty ones."""
    text = sentence(fact, lang, rng)
    empty = rng.sample(read_yaml("corpus/requests.yaml")[lang]["rambling"], 4)
    rambling = ("" if lang == "zh" else " ").join([*empty[:2], text, *empty[2:]])
    return request("short", fact, lang, rng), text, rambling


def _format(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> Pair:
    """JSON as asked, and prose, a bare answer, a wrong key or broken JSON."""
    right = json_answer(fact.answer[lang])
    wrong = (
        sentence(fact, lang, rng),
        fact.answer[lang],
        right.replace('"answer"', '"result"', 1),
        right.removesuffix("}"),
    )
    return request("json", fact, lang, rng), right, rng.choice(wrong)


_MAKERS: dict[str, Callable[[Fact, str, Sequence[Fact], Random], Pair]] = {
    "correct": _correct,
    "letter": _letter,
    "concise": _concise,
    "format": _format,
}
