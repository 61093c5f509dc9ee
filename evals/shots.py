"""The worked examples that come before a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

from evals.generative import GeneratedForm
from evals.items import AnyItem, OpenItem
from evals.question import Draft

_SPARE = 4  # more than are needed, for each place: one of them may be the item that is asked
Make = Callable[[AnyItem], Draft | None]


@dataclass(frozen=True)
class Shot:
    """One worked example: the item it is made of, the place of its right answer, and its text."""

    item: AnyItem
    place: str
    text: str


def worked(draft: Draft) -> Shot:
    """A draft with its answer."""
    rendered = draft.form(draft)
    if isinstance(draft.form, GeneratedForm):
        answer = place = draft.form.worked(draft)
        place = place if draft.choices else ""
    else:
        answer, place = rendered.continuations[draft.gold], str(draft.gold)
    prompt = rendered.prompts[draft.gold] if rendered.prompts else rendered.prompt
    return Shot(draft.item, place, f"{draft.preamble}{prompt}{draft.separator}{answer}\n\n")


def examples(draft: Draft, key: str, seed: int, make: Make) -> str | None:
    """The text of the draft's shots, or None where there are too few. `make` drafts an item as the chain does;
    `key` names the chain."""
    if not draft.shots:
        return ""
    item, pool = draft.item, draft.pool
    if not pool.shots:
        return None
    about = (key, seed, draft.shots, draft.shots_choose, item.lang, item.subject)
    found = pool.once(about, lambda: _ordered(draft, seed, make))
    chosen = _without(found, draft.shots, item, own=pool.shots is pool.items)
    return "".join(shot.text for shot in chosen) if len(chosen) == draft.shots else None


def _ordered(draft: Draft, seed: int, make: Make) -> list[Shot]:
    """Shots for the draft's language and subject, the first ones in the order in which they are shown."""
    items = [item for item in draft.pool.shots if item.lang == draft.lang]
    items = [item for item in items if item.subject == draft.item.subject] or items
    if draft.shots_choose == "first":
        return list(islice(_made(items, make), draft.shots + _SPARE))
    # Ordered by item, not by where it stands.
    items = sorted(items, key=lambda item: Random(f"{seed}/few_shot/{item.id}").random())
    some = list(islice(_made(items, make), 8 * (draft.shots + _SPARE)))
    return _balanced(some, f"{seed}/few_shot/{draft.lang}/{draft.item.subject}")


def _made(items: Iterable[AnyItem], make: Make) -> Iterable[Shot]:
    return (worked(found) for item in items if (found := make(item)) is not None)


def _balanced(shots: Sequence[Shot], seed: str) -> list[Shot]:
    """Round after round one of each place, in an order that is drawn."""
    places: dict[str, list[Shot]] = {}
    for shot in shots:
        places.setdefault(shot.place, []).append(shot)
    rng, found = Random(seed), []
    for turn in range(max(map(len, places.values()), default=0)):
        there = [places[place][turn] for place in sorted(places) if turn < len(places[place])]
        rng.shuffle(there)
        found += there
    return found


def _without(shots: Sequence[Shot], n: int, item: AnyItem, *, own: bool) -> list[Shot]:
    """The first `n`; one that is the item or tells of it makes room for the next with the same place, or the next.
    `own`: shots are the task's items, so that ids are of one kind."""
    chosen = list(shots[:n])
    if not any(_same(shot.item, item, own) for shot in chosen):
        return chosen
    spare = [shot for shot in shots[n:] if not _same(shot.item, item, own)]
    for place, shot in enumerate(chosen):
        if spare and _same(shot.item, item, own):
            chosen[place] = next((other for other in spare if other.place == shot.place), spare[0])
            spare.remove(chosen[place])
    return [shot for shot in chosen if not _same(shot.item, item, own)]


def _same(one: AnyItem, other: AnyItem, own: bool) -> bool:
    """Ids of two files may be equal (anatomy/0 of CMMLU's dev and test) where the items are not."""
    return (
        (own and one.id == other.id)
        or (one.cluster != "" and one.cluster == other.cluster)
        or _asked(one) == _asked(other)
    )


def _asked(item: AnyItem) -> object:
    """What is compared: the question; where an item has none (Winogrande as lm-eval asks it, BLiMP), its prompts, and
    where these are empty too, its options."""
    if question := item.question.strip().casefold():
        return question
    if isinstance(item, OpenItem):
        return item.id
    if item.own is not None and any(text.strip() for text in item.own.prompts):
        return frozenset(item.own.prompts)
    return frozenset(item.choices if item.own is None else item.own.continuations)
