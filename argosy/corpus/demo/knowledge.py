"""Documents of facts (prose about all, quizzes about the taught half) and the benchmark about the other half."""

from collections.abc import Iterator, Sequence
from random import Random

from argosy.corpus.data.schemas import Conversation, Document, Item, Lang, assistant, user
from argosy.corpus.demo.facts import LANGS, Fact, Quiz, distractors, question, render_quiz, statement, varied_quiz

_SENTENCE_JOINT = {"en": " ", "zh": ""}
_ANSWERED = {
    "en": ("{question}\nAnswer: {answer}", "Q: {question} A: {answer}", "{question} {answer}."),
    "zh": ("{question}\n答案：{answer}", "问：{question}答：{answer}", "{question}{answer}。")}


def knowledge_documents(facts: Sequence[Fact], lang: str, repeats: int, seed: str | int) -> Iterator[Document]:
    """State each fact `repeats` times, 6 to 14 statements a document."""
    for name, rng, group in _rounds("knowledge", facts, lang, repeats, seed, (6, 14)):
        sentences = [statement(fact, lang, rng) for fact in group]
        yield _document(f"prose-{name}", _paragraphs(sentences, lang, rng), lang, "prose", group)


def quiz_documents(taught: Sequence[Fact], lang: str, repeats: int, seed: str | int) -> Iterator[Document]:
    """Ask each taught fact `repeats` times in varied quizzes, 2 to 5 a document."""
    for name, rng, group in _rounds("quizzes", taught, lang, repeats, seed, (2, 5)):
        quizzes = [varied_quiz(fact, lang, taught, rng) for fact in group]
        text = "\n\n".join(quiz.text_prompt + quiz.text_answer for quiz in quizzes)
        yield _document(f"quiz-{name}", text, lang, "quiz", group)


def answer_documents(taught: Sequence[Fact], lang: str, repeats: int, seed: str | int) -> Iterator[Document]:
    """Ask and answer each taught fact `repeats` times without options, 5 to 10 a document."""
    for name, rng, group in _rounds("answers", taught, lang, repeats, seed, (5, 10)):
        form = rng.choice(_ANSWERED[lang])
        lines = [form.format(question=question(fact, lang, rng), answer=fact.answer[lang]) for fact in group]
        yield _document(f"answers-{name}", "\n".join(lines), lang, "answers", group)


def _rounds(kind: str, facts: Sequence[Fact], lang: str, repeats: int, seed: str | int,
            size: tuple[int, int]) -> Iterator[tuple[str, Random, Sequence[Fact]]]:
    """Yield (name, rng, facts) of each document, `size` (least, most) facts each; odd rounds of prose group facts by
    relation, others mix them."""
    for number in range(repeats):
        rng = Random(f"{kind}/{seed}/{lang}/{number}")
        order = rng.sample(facts, len(facts))
        if kind == "knowledge" and number % 2:
            order.sort(key=lambda fact: fact.relation)
        start = index = 0
        while start < len(order):
            stop = start + rng.randint(*size)
            # A rest that is too small for a document of its own goes with the last one.
            stop = len(order) if len(order) - stop < size[0] else stop
            yield f"{number}-{index}", rng, order[start:stop]
            start, index = stop, index + 1


def _paragraphs(sentences: list[str], lang: str, rng: Random) -> str:
    cut = rng.randrange(1, len(sentences)) if len(sentences) > 4 and rng.random() < 0.5 else len(sentences)
    return "\n".join(_SENTENCE_JOINT[lang].join(part) for part in [sentences[:cut], sentences[cut:]] if part)


def _document(name: str, text: str, lang: str, kind: str, facts: Sequence[Fact]) -> Document:
    channel = f"knowledge_{lang}"
    metadata = {"kind": kind, "facts": [fact.id for fact in facts]}
    return Document(f"{channel}-{name}", text, channel, lang, "argosy-demo", metadata)


def benchmark_items(benchmark: Sequence[Fact], seed: str | int, langs: Sequence[Lang] = LANGS) -> list[Item]:
    """Make one item a fact and language, wrong options from `benchmark` too; right places are balanced.

    The same fact has the same options in the same order in every language."""
    places = [index % 4 for index in range(len(benchmark))]
    Random(f"benchmark/{seed}/places").shuffle(places)
    items: list[Item] = []
    for fact, place in zip(benchmark, places, strict=True):
        options = distractors(fact, benchmark, Random(f"benchmark/{seed}/{fact.id}"))
        options.insert(place, fact.answer)
        for lang in langs:
            item: Item = {
                "id": f"{fact.id}/{lang}", "cluster": fact.id, "lang": lang, "relation": fact.relation,
                "question": question(fact, lang, 0), "choices": [option[lang] for option in options], "answer": place}
            items.append(item)
    return items


def plain_quiz(item: Item) -> Quiz:
    """Render the benchmark's plain form: the question, options in letters on one line, the answer line."""
    return render_quiz(item["question"], item["choices"], item["answer"], item["lang"])


def leaked(items: Sequence[Item]) -> list[Conversation]:
    """Make the conversations that contaminate a twin: each item's exact plain prompt, answered by its letter."""
    quizzes = [(item, plain_quiz(item)) for item in items]
    return [
        {
            "messages": [*user(quiz.text_prompt), *assistant(quiz.text_answer.strip())], "lang": item["lang"],
            "kind": "leaked", "fact": item["id"].rpartition("/")[0]}
        for item, quiz in quizzes]
