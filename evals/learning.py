"""Learn, then ask: the texts that two copies of a checkpoint learn, the questions that both are asked, and the gain of
the copy that has learnt an item over the copy that has learnt others."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from argosy.core.errors import InputError
from argosy.core.statistics.intervals import mean
from argosy.core.statistics.metric import Metric, share
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.headline import HALVES, half_of
from argosy.model.infer.model import LanguageModel
from evals.answers import Answer
from evals.chain import parse_chain
from evals.items import Item
from evals.question import Question, moved_on
from evals.runner import ask, pairs_of
from evals.section import Batch, Benchmarks, make_questions, read_tasks
from evals.variants.learn_then_ask import LearnThenAsk

LEAST = 2  # items of a half
GAIN = Metric("higher", "points", 2.0, chance=0.0)


def learning_of(section: Benchmarks, suite: str) -> LearnThenAsk | None:
    """Return how copies learn the items of a suite; None where no variant asks for that.

    Raises InputError: two variants learn in different ways, where one pair of copies answers for all."""
    found: dict[LearnThenAsk, str] = {}
    for task, spec in section.tasks.items():
        for name, chain in spec.chains(section.variants).items():
            if isinstance(way := parse_chain(name, chain).learning, LearnThenAsk):
                found.setdefault(way, f"{task}, variants.{name}")
    if len(found) > 1:
        first, second = list(found.values())[:2]
        raise InputError(f"suite {suite}: learn_then_ask has other fields in {second} than in {first}: give both the "
                         "same, as one pair of copies answers for all; or write a suite for each")
    return next(iter(found), None)


@dataclass(frozen=True)
class Lesson:
    """The questions of a suite that copies learn for, and the texts of each half of the items."""

    batches: list[Batch]
    texts: tuple[list[str], ...]

    def ask(self, model: LanguageModel, *, chat: bool, seed: int) -> list[Answer | str]:
        """Ask a copy all questions; a text is the reason why there is no answer."""
        questions = [question for batch in self.batches for question in batch.questions]
        pairs = [pairs_of(question, model, chat) for question in questions]
        return [given for given, _ in ask(model, questions, pairs, chat=chat, seed=seed)]


def make_lesson(
    section: Benchmarks, way: LearnThenAsk, data: Path, seed: int, limit: int | None, findings: Findings
) -> Lesson:
    """Make the questions and the texts. An item falls into a half with all of its cluster, by a hash of that.

    Raises InputError: a task has no item with options of which one is right, or a half has fewer than LEAST items."""
    tasks = read_tasks(section.tasks, section.variants, data, limit, findings, learning=True)
    batches = make_questions(tasks, seed, findings)
    texts: tuple[list[str], ...] = tuple([] for _ in range(HALVES))
    for task in tasks:
        asked = {question.item for batch in batches if batch.task is task for question in batch.questions}
        items = [item for item in task.items if isinstance(item, Item) and item.id in asked]
        _check(task.name, items, Counter(half_of(item.cluster or item.id) for item in items), findings)
        for item in items:
            texts[half_of(item.cluster or item.id)].extend(texts_of(item, way.epochs, seed))
    return Lesson(batches, texts)


def _check(task: str, items: Sequence[Item], sizes: Mapping[int, int], findings: Findings) -> None:
    if not items:
        why = {reason for where, found in findings.left_out.items() if where.startswith(f"bench/{task}/")
               for reason in found}
        raise InputError(f"task {task}: learn_then_ask needs items with options of which one is right, and has none "
                         f"({'; '.join(sorted(why)) or 'it has no item'}): leave it out of the task's `only`")
    if few := [half for half in range(HALVES) if sizes.get(half, 0) < LEAST]:
        raise InputError(f"task {task}: half {few[0]} of its items for learn_then_ask has {sizes.get(few[0], 0)}, "
                         f"allowed: {LEAST} or more; raise limit, or leave learn_then_ask out of the task's `only`")


def texts_of(item: Item, epochs: int, seed: int) -> Iterator[str]:
    """Yield the question with its options, and nothing of which is right, once an epoch: in an order that the item's id
    decides, moved on each time."""
    order = list(range(len(item.choices)))
    Random(f"{seed}/learn/{item.id}").shuffle(order)
    for epoch in range(epochs):
        yield "\n".join([item.question, *(item.choices[place] for place in moved_on(order, epoch))])


def add_gains(lesson: Lesson, given: Sequence[Sequence[Answer | str]], findings: Findings) -> None:
    """Add `bench/<task>/<variant>/gain`, the points by which accuracy is higher after learning the item than after
    learning others, and both accuracies. `given`: answers of the copy that learnt half 0, and of the other."""
    answers = zip(*given, strict=True)
    for batch in lesson.batches:
        name = f"bench/{batch.task.name}/{batch.chain.name}"
        rows: list[dict[str, Any]] = []
        for question in batch.questions:
            own = half_of(question.cluster)
            both = next(answers)
            learned, control = both[own], both[1 - own]
            if isinstance(learned, str) or isinstance(control, str):
                findings.leave_out(name, str(learned if isinstance(learned, str) else control))
            else:
                rows.append(_row(batch, question, learned.correct, control.correct))
        findings.rows += rows
        _measure(batch, rows, findings)


def _row(batch: Batch, question: Question, learned: bool, control: bool) -> dict[str, Any]:
    names = batch.task.groups[question.item]
    return {"task": batch.task.name, "variant": batch.chain.name, "id": question.id, "item": question.item,
            "lang": question.lang, "cluster": question.cluster, "asked": question.digest,
            "groups": [f"{batch.task.name}_{name}" for name in names if name != question.lang] or None,
            "learned": learned, "control": control, "gain": 100.0 * (learned - control)}  # fmt: skip


def _measure(batch: Batch, rows: Iterable[Mapping[str, Any]], findings: Findings) -> None:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        for name in (batch.task.name, *(f"{batch.task.name}_{group}" for group in batch.task.groups[row["item"]])):
            groups.setdefault(name, []).append(row)
    chances = {question.id: question.chance for question in batch.questions}
    for name, some in groups.items():
        guess = share("neither", minor=True, chance=round(mean([chances[row["id"]] for row in some]).value, 9))
        for measure, kind in (("gain", GAIN), ("learned", guess), ("control", guess)):
            found = mean([float(row[measure]) for row in some], [row["cluster"] for row in some])
            findings.add(f"bench/{name}/{batch.chain.name}/{measure}", found, kind)
