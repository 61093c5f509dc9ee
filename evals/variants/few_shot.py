"""Worked examples before the question."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Literal

from pydantic import Field

from evals.forms import GeneratedForm
from evals.items import AnyItem, Identity, identity
from evals.question import Draft
from evals.variants import Variant

_SPARE = 4  # more than are needed, drawn at a time: one of them may be the item of the question
Make = Callable[[AnyItem], Draft | None]


class FewShot(Variant):
    """`n` items with their answers before the question, the same for all items of a language and subject.

    They come from the task's `shots`, else from its items; never the item itself, one of its cluster or one that shows
    its answer (evals.items.Identity). They go through the chain's other variants, so that forms agree. `choose`:
    `balanced` (drawn by the seed, the right option at each place equally often) or `first` (the first `n` as they
    stand: lm-eval's MMLU)."""

    name = "few_shot"
    draws = False
    open = True
    several = True
    harness_form = True
    n: int = Field(5, ge=0)
    choose: Literal["balanced", "first"] = "balanced"

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Set the number of examples that the draft gets when it is rendered."""
        return [replace(draft, few_shot=self.n, few_shot_choose=self.choose)]


@dataclass(frozen=True)
class Example:
    """One worked example: the item it is made of, the place of its right answer, and its text."""

    item: AnyItem
    identity: Identity
    place: str
    text: str


class Examples:
    """Worked examples in the order in which they are shown, made as far as they are needed.

    Args:
        source: all of them, in the order in which they are drawn.
        size: how many are drawn at a time.
        order: puts those that are drawn at one time in order, given which time it is."""

    def __init__(
        self, source: Iterator[Example], size: int, order: Callable[[list[Example], int], list[Example]]
    ) -> None:
        self.ready: list[Example] = []
        self._source, self._size, self._order = source, size, order
        self._draws = 0

    def first(self, n: int) -> list[Example]:
        """Return the first `n`, or all where there are fewer."""
        while len(self.ready) < n and self.grow():
            pass
        return self.ready[:n]

    def grow(self) -> bool:
        """Draw more; False: there are no more."""
        drawn = list(islice(self._source, self._size))
        self.ready += self._order(drawn, self._draws)
        self._draws += 1
        return bool(drawn)


def examples_text(draft: Draft, key: str, seed: int, make: Make) -> str | None:
    """Write the draft's examples, or None where there are too few. `make` drafts an item as the chain does; `key`
    names the chain."""
    n, item, pool = draft.few_shot, draft.item, draft.pool
    if not n:
        return ""
    if not pool.examples:
        return None
    ordered = pool.cached((key, seed, n, draft.few_shot_choose, item.lang, item.subject),
                          lambda: _ordered(draft, seed, make))  # fmt: skip
    chosen = _without(ordered, n, item, same_ids=pool.examples is pool.items)
    return "".join(example.text for example in chosen) if len(chosen) == n else None


def _worked(draft: Draft) -> Example:
    rendered = draft.form(draft)
    if isinstance(draft.form, GeneratedForm):
        answer = place = draft.form.worked(draft)
        place = place if draft.choices else ""
    else:
        answer, place = rendered.continuations[draft.gold], str(draft.gold)
    prompt = rendered.prompts[draft.gold] if rendered.prompts else rendered.prompt
    text = f"{draft.preamble}{prompt}{draft.separator}{answer}\n\n"
    return Example(draft.item, identity(draft.item), place, text)


def _ordered(draft: Draft, seed: int, make: Make) -> Examples:
    """Order the examples for the draft's language and subject, the first to be shown first."""
    items = [item for item in draft.pool.examples if item.lang == draft.lang]
    items = [item for item in items if item.subject == draft.item.subject] or items
    size, about = draft.few_shot + _SPARE, f"{seed}/few_shot/{draft.lang}/{draft.item.subject}"
    balanced = draft.few_shot_choose == "balanced"
    if balanced:  # ordered by item, not by where it stands
        items = sorted(items, key=lambda item: Random(f"{seed}/few_shot/{item.id}").random())
    made = (_worked(drafted) for item in items if (drafted := make(item)) is not None)
    if not balanced:
        return Examples(made, size, lambda drawn, _: drawn)
    return Examples(made, 8 * size, lambda drawn, time: _balanced(drawn, f"{about}/{time}" if time else about))


def _balanced(examples: Sequence[Example], seed: str) -> list[Example]:
    """Take round after round one of each place, in an order that is drawn."""
    places: dict[str, list[Example]] = {}
    for example in examples:
        places.setdefault(example.place, []).append(example)
    rng, ordered = Random(seed), []
    for turn in range(max(map(len, places.values()), default=0)):
        there = [places[place][turn] for place in sorted(places) if turn < len(places[place])]
        rng.shuffle(there)
        ordered += there
    return ordered


def _without(examples: Examples, n: int, item: AnyItem, *, same_ids: bool) -> list[Example]:
    """Take the first `n`; one that is the item or shows it makes room for the next with the same place, or the next.
    `same_ids`: examples are the task's items, so that equal ids are one item."""
    own = identity(item)

    def shows(example: Example) -> bool:  # ids of two files may be equal where the items are not (CMMLU's dev and test)
        other = example.item
        related = other.cluster != "" and other.cluster == item.cluster
        return related or (same_ids and other.id == item.id) or example.identity.shows(own)

    chosen = examples.first(n)
    places = [place for place, example in enumerate(chosen) if shows(example)]
    spare = [example for example in examples.ready[n:] if not shows(example)] if places else []
    while len(spare) < len(places) and examples.grow():
        spare = [example for example in examples.ready[n:] if not shows(example)]
    for place in places[: len(spare)]:
        chosen[place] = next((other for other in spare if other.place == chosen[place].place), spare[0])
        spare.remove(chosen[place])
    return [example for example in chosen if not shows(example)]
