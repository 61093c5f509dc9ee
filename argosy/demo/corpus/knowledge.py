"""Documents of facts: prose about all of them, quizzes about the taught half alone."""

from collections.abc import Iterator, Sequence
from random import Random

from argosy.demo.corpus.choices import varied_quiz
from argosy.demo.corpus.records import DocumentRecord
from argosy.demo.facts import Fact
from argosy.demo.phrasings import question, statement

_SENTENCE_JOINT = {"en": " ", "zh": ""}
_ANSWERED = {
    "en": ("{question}\nAnswer: {answer}", "Q: {question} A: {answer}", "{question} {answer}."),
    "zh": ("{question}\n答案：{answer}", "问：{question}答：{answer}", "{question}{answer}。"),
}


def knowledge_documents(
    facts: Sequence[Fact], lang: str, repeats: int, seed: str | int, size: tuple[int, int] = (6, 14)
) -> Iterator[DocumentRecord]:
    """Each fact stated `repeats` times, `size` (least, most) statements a document.

    Odd rounds group facts by relation, even ones mix them.
    """
    for round_number in range(repeats):
        rng = Random(f"knowledge/{seed}/{lang}/{round_number}")
        order = rng.sample(facts, len(facts))
        if round_number % 2:
            order.sort(key=lambda fact: fact.relation)
        for index, group in enumerate(_groups(order, size, rng)):
            sentences = [statement(fact, lang, rng) for fact in group]
            yield _record(f"prose-{round_number}-{index}", _paragraphs(sentences, lang, rng), lang, "prose", group)


def quiz_documents(
    taught: Sequence[Fact], lang: str, repeats: int, seed: str | int, size: tuple[int, int] = (2, 5)
) -> Iterator[DocumentRecord]:
    """Each taught fact asked `repeats` times in varied quizzes, `size` (least, most) a document."""
    for round_number in range(repeats):
        rng = Random(f"quizzes/{seed}/{lang}/{round_number}")
        order = rng.sample(taught, len(taught))
        for index, group in enumerate(_groups(order, size, rng)):
            quizzes = [varied_quiz(fact, lang, taught, rng) for fact in group]
            text = "\n\n".join(quiz.text_prompt + quiz.text_answer for quiz in quizzes)
            yield _record(f"quiz-{round_number}-{index}", text, lang, "quiz", group)


def answer_documents(
    taught: Sequence[Fact], lang: str, repeats: int, seed: str | int, size: tuple[int, int] = (5, 10)
) -> Iterator[DocumentRecord]:
    """Each taught fact asked and answered `repeats` times without options, `size` (least, most) a document."""
    for round_number in range(repeats):
        rng = Random(f"answers/{seed}/{lang}/{round_number}")
        order = rng.sample(taught, len(taught))
        for index, group in enumerate(_groups(order, size, rng)):
            form = rng.choice(_ANSWERED[lang])
            asked = [form.format(question=question(fact, lang, rng), answer=fact.answer[lang]) for fact in group]
            yield _record(f"answers-{round_number}-{index}", "\n".join(asked), lang, "answers", group)


def _groups(facts: Sequence[Fact], size: tuple[int, int], rng: Random) -> Iterator[Sequence[Fact]]:
    start = 0
    while start < len(facts):
        stop = start + rng.randint(*size)
        # A rest that is too small for a document of its own goes with the last one.
        stop = len(facts) if len(facts) - stop < size[0] else stop
        yield facts[start:stop]
        start = stop


def _paragraphs(sentences: list[str], lang: str, rng: Random) -> str:
    cut = rng.randrange(1, len(sentences)) if len(sentences) > 4 and rng.random() < 0.5 else len(sentences)
    parts = [sentences[:cut], sentences[cut:]]
    return "\n".join(_SENTENCE_JOINT[lang].join(part) for part in parts if part)


def _record(name: str, text: str, lang: str, kind: str, facts: Sequence[Fact]) -> DocumentRecord:
    return {
        "id": f"knowledge_{lang}-{name}",
        "text": text,
        "channel": f"knowledge_{lang}",
        "lang": lang,
        "source": "argosy-demo",
        "metadata": {"kind": kind, "facts": [fact.id for fact in facts]},
    }
