"""The benchmark: four-option items about the half of the facts that no training quiz asks."""

from collections.abc import Sequence
from random import Random

from argosy.demo.corpus.records import Conversation, Item, assistant, user
from argosy.demo.facts import LANGS, Fact, distractors
from argosy.demo.phrasings import Quiz, question, render_quiz


def benchmark_items(benchmark: Sequence[Fact], seed: str | int, langs: Sequence[str] = LANGS) -> list[Item]:
    """One item a fact and language, wrong options from `benchmark` too; right places are balanced.

    The same fact has the same options in the same order in every language.
    """
    places = [index % 4 for index in range(len(benchmark))]
    Random(f"benchmark/{seed}/places").shuffle(places)
    items: list[Item] = []
    for fact, place in zip(benchmark, places, strict=True):
        options = distractors(fact, benchmark, Random(f"benchmark/{seed}/{fact.id}"))
        options.insert(place, fact.answer)
        for lang in langs:
            items.append(
                {
                    "id": f"{fact.id}/{lang}",
                    "cluster": fact.id,
                    "lang": lang,
                    "relation": fact.relation,
                    "question": question(fact, lang, 0),
                    "choices": [option[lang] for option in options],
                    "answer": place,
                }
            )
    return items


def plain_quiz(item: Item) -> Quiz:
    """The benchmark's plain form: the question, options in letters on one line, the answer line."""
    return render_quiz(item["question"], item["choices"], item["answer"], item["lang"])


def leaked(items: Sequence[Item]) -> list[Conversation]:
    """What a contaminated twin is tuned on: each item's exact plain prompt, answered by its letter."""
    quizzes = [(item, plain_quiz(item)) for item in items]
    return [
        {
            "messages": [*user(quiz.text_prompt), *assistant(quiz.text_answer.strip())],
            "lang": item["lang"],
            "kind": "leaked",
            "fact": item["id"].rpartition("/")[0],
        }
        for item, quiz in quizzes
    ]
