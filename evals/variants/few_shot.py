"""Worked examples before the question."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Literal

from pydantic import Field

from evals.forms import GeneratedForm
from evals.items import AnyItem, OpenItem
from evals.question import Draft
from evals.variants import Variant

_SPARE = 4  # more than are needed, for each place: one of them may be the item of the question
Make = Callable[[AnyItem], Draft | None]


class FewShot(Variant):
    """`n` items with their answers before the question, the same for all items of a language and subject.

    They come from the task's `shots`, else from its items; never the item itself, one of its cluster or of the same
    question. They go through the chain's other variants, so that forms agree. `choose`: `balanced` (drawn by the
    seed, the right option at each place equally often) or `first` (the first `n` as they stand: lm-eval's MMLU)."""

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
    place: str
    text: str


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
    return Example(draft.item, place, f"{draft.preamble}{prompt}{draft.separator}{answer}\n\n")


def _ordered(draft: Draft, seed: int, make: Make) -> list[Example]:
    """Order the examples for the draft's language and subject, the first to be shown first."""

    def made(items: Iterable[AnyItem], n: int) -> list[Example]:
        return list(islice((_worked(drafted) for item in items if (drafted := make(item)) is not None), n))

    items = [item for item in draft.pool.examples if item.lang == draft.lang]
    items = [item for item in items if item.subject == draft.item.subject] or items
    if draft.few_shot_choose == "first":
        return made(items, draft.few_shot + _SPARE)
    # Ordered by item, not by where it stands.
    items = sorted(items, key=lambda item: Random(f"{seed}/few_shot/{item.id}").random())
    return _balanced(made(items, 8 * (draft.few_shot + _SPARE)), f"{seed}/few_shot/{draft.lang}/{draft.item.subject}")


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


def _without(examples: Sequence[Example], n: int, item: AnyItem, *, same_ids: bool) -> list[Example]:
    """Take the first `n`; one that is the item or shows it makes room for the next with the same place, or the next.
    `same_ids`: examples are the task's items, so that equal ids are one item."""
    chosen = list(examples[:n])
    if not any(_same(example.item, item, same_ids) for example in chosen):
        return chosen
    spare = [example for example in examples[n:] if not _same(example.item, item, same_ids)]
    for place, example in enumerate(chosen):
        if spare and _same(example.item, item, same_ids):
            chosen[place] = next((other for other in spare if other.place == example.place), spare[0])
            spare.remove(chosen[place])
    return [example for example in chosen if not _same(example.item, item, same_ids)]


def _same(one: AnyItem, other: AnyItem, same_ids: bool) -> bool:
    """Tell whether two items show each other; ids of two files may be equal (anatomy/0 of CMMLU's dev and test) where
    the items are not."""
    return (
        (same_ids and one.id == other.id)
        or (one.cluster != "" and one.cluster == other.cluster)
        or _content(one) == _content(other)
    )


def _content(item: AnyItem) -> object:
    """Return the question; where an item has none (Winogrande as lm-eval asks it, BLiMP), its prompts, and where these
    are empty too, its options."""
    if question := item.question.strip().casefold():
        return question
    if isinstance(item, OpenItem):
        return item.id
    if item.harness is not None and any(text.strip() for text in item.harness.prompts):
        return frozenset(item.harness.prompts)
    return frozenset(item.choices if item.harness is None else item.harness.continuations)
