"""Learn, then ask: the texts that two copies of a checkpoint learn, the questions that both are asked, and the gain of
the copy that has learnt an item over the copy that has learnt others."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from argosy.core.errors import InputError
from argosy.core.statistics.intervals import mean
from argosy.core.statistics.metric import Metric, share
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.headline import HALVES, half_of
from argosy.evidence.results.suite import Suite
from argosy.model.infer.model import LanguageModel
from evals.answers import Answer
from evals.ask import ask, pairs_of
from evals.chain import parse_chain
from evals.extract import RULES
from evals.items import Item, same_text
from evals.question import Question, moved_on
from evals.section import Batch, Benchmarks, make_questions, read_tasks
from evals.variants.learn_then_ask import LearnThenAsk

LEAST = 2  # items of a half
OTHERS = -2  # in Question.origin: an option of another item
GAIN = Metric("higher", "points", 2.0, chance=0.0)
NAMED = share("neither", minor=True)


def learning_of(section: Benchmarks, suite: str) -> LearnThenAsk | None:
    """Return how copies learn the items of a suite; None where no variant asks for that. Raises InputError: two
    variants learn in different ways, where one pair of copies answers for all."""
    found: dict[LearnThenAsk, str] = {}
    for task, spec in section.tasks.items():
        for name, chain in spec.chains(section.variants).items():
            if isinstance(way := parse_chain(name, chain).learning, LearnThenAsk):
                found.setdefault(way.model_copy(update={"among": 0}), f"{task}, variants.{name}")
    if len(found) > 1:
        first, second = list(found.values())[:2]
        raise InputError(f"suite {suite}: learn_then_ask has other fields in {second} than in {first}: give both the "
                         "same, as one pair of copies answers for all; or write a suite for each")
    return next(iter(found), None)


def only_learns(suite: Suite) -> bool:
    """Tell whether a suite asks nothing of the checkpoint itself, as all its variants learn before they ask."""
    if suite.benchmarks is None or suite.probes is not None or suite.heldout is not None:
        return False
    section = suite.section("benchmarks", Benchmarks)
    chains = [parse_chain(*each) for spec in section.tasks.values() for each in spec.chains(section.variants).items()]
    return not section.lm_eval and section.memorisation is None and all(chain.learning for chain in chains)


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


def make_lesson(section: Benchmarks, way: LearnThenAsk, data: Path, seed: int, limit: int | None,
                findings: Findings) -> Lesson:
    """Make the questions and the texts. An item falls into a half with all of its cluster, by a hash of that. Raises
    InputError: a task has no item with options of which one is right, or a half has fewer than LEAST items."""
    tasks = read_tasks(section.tasks, section.variants, data, limit, findings, learning=True)
    batches = [_among_others(batch, seed) for batch in make_questions(tasks, seed, findings)]
    texts: tuple[list[str], ...] = tuple([] for _ in range(HALVES))
    for task in tasks:
        asked = {question.item for batch in batches if batch.task is task for question in batch.questions}
        items = [item for item in task.items if isinstance(item, Item) and item.id in asked]
        _check(task.name, items, Counter(half_of(item.cluster or item.id) for item in items), findings)
        for item in items:
            texts[half_of(item.cluster or item.id)].extend(texts_of(item, way.epochs, seed))
    return Lesson(batches, texts)


def _among_others(batch: Batch, seed: int) -> Batch:
    """Ask for the answer among options of other items too, drawn by the item's id of those of its language that are no
    option of its own. Raises InputError: the form scores no texts of options."""
    count = way.among if isinstance(way := batch.chain.learning, LearnThenAsk) else 0
    if not count:
        return batch
    texts: dict[str, dict[str, str]] = {}
    for item in sorted(batch.task.items, key=lambda item: item.id):
        for choice in item.choices if isinstance(item, Item) else ():
            texts.setdefault(item.lang, {}).setdefault(same_text(choice), choice)
    questions = []
    for question in batch.questions:
        if question.labelled or question.prompts or not question.continuations:
            raise InputError(f"task {batch.task.name}, variants.{batch.chain.name}: learn_then_ask.among={count} asks "
                             "for the text of an option: let cloze, or a template with answer {text}, follow it")
        own = {same_text(text) for text in question.continuations}
        others = [text for same, text in texts[question.lang].items() if same not in own]
        drawn = Random(f"{seed}/among/{question.item}").sample(others, min(count, len(others)))
        questions.append(replace(question, continuations=(*question.continuations, *drawn),
                                 origin=(*question.origin, *[OTHERS] * len(drawn))))
    return replace(batch, questions=questions)


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


class Named(NamedTuple):
    """One copy's answer: whether it is right, and whether it names an option of the item's, `options` in number."""

    right: bool
    named: bool
    options: int

    @property
    def beyond_guess(self) -> float:
        """Right answers, less those of one who draws an option wherever this copy names one."""
        return self.right - self.named / self.options


def read_answer(question: Question, given: Answer, choices: Sequence[str]) -> Named:
    """Read an answer; among options of other items, it is the likeliest by character. `choices`: the item's."""
    if (about := question.generation) is not None:
        rule = RULES.pick(about.extract)
        named = given.chosen >= 0 or given.extracted in [rule.canonical(choice) for choice in choices]
        return Named(given.correct, named, len(about.labels) or len(choices))
    place = given.chosen_norm if OTHERS in question.origin else given.chosen
    own = sum(origin != OTHERS for origin in question.origin)
    return Named(given.is_right(place), question.origin[place] != OTHERS, own)


def add_gains(lesson: Lesson, given: Sequence[Sequence[Answer | str]], findings: Findings) -> None:
    """Add `bench/<task>/<variant>/gain`: the points by which accuracy is higher after learning the item than after
    learning others, beyond what one gains who guesses among the options wherever a copy names one of them; both
    accuracies; and, where other answers are possible, `named`, how often the copy that learnt the item names one.
    `given`: answers of the copy that learnt half 0, and of the other."""
    answers = zip(*given, strict=True)
    for batch in lesson.batches:
        name = f"bench/{batch.task.name}/{batch.chain.name}"
        choices = {item.id: item.choices for item in batch.task.items if isinstance(item, Item)}
        rows: list[dict[str, Any]] = []
        for question in batch.questions:
            own = half_of(question.cluster)
            both = next(answers)
            learned, control = both[own], both[1 - own]
            if isinstance(learned, str) or isinstance(control, str):
                findings.leave_out(name, str(learned if isinstance(learned, str) else control))
            else:
                rows.append(_row(batch, question, *(read_answer(question, each, choices[question.item])
                                                    for each in (learned, control))))
        findings.rows += rows
        _measure(batch, rows, findings)


def _row(batch: Batch, question: Question, learned: Named, control: Named) -> dict[str, Any]:
    names = batch.task.groups[question.item]
    return {"task": batch.task.name, "variant": batch.chain.name, "id": question.id, "item": question.item,
            "lang": question.lang, "cluster": question.cluster, "asked": question.digest,
            "groups": [f"{batch.task.name}_{name}" for name in names if name != question.lang] or None,
            "learned": learned.right, "control": control.right, "named": learned.named,
            "gain": 100.0 * (learned.beyond_guess - control.beyond_guess)}  # fmt: skip


def _measure(batch: Batch, rows: Iterable[Mapping[str, Any]], findings: Findings) -> None:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        for name in (batch.task.name, *(f"{batch.task.name}_{group}" for group in batch.task.groups[row["item"]])):
            groups.setdefault(name, []).append(row)
    chances = {question.id: question.chance for question in batch.questions}
    open_form = any(OTHERS in question.origin or question.generation for question in batch.questions)
    for name, some in groups.items():
        guess = share("neither", minor=True, chance=round(mean([chances[row["id"]] for row in some]).value, 9))
        kinds = {"gain": GAIN, "learned": guess, "control": guess} | ({"named": NAMED} if open_form else {})
        for measure, kind in kinds.items():
            found = mean([float(row[measure]) for row in some], [row["cluster"] for row in some])
            findings.add(f"bench/{name}/{batch.chain.name}/{measure}", found, kind)
