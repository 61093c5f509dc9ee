"""Wrong options that come from other items."""

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, islice
from operator import itemgetter
from random import Random

from argosy.core.config.explain import grouped
from evals.items import Item
from evals.question import Draft, Pool
from evals.variants import OF_OTHERS, NotApplicable, Variant, all_named, any_text_may_be_right, options_refer_to_options

_WINDOW = 11  # candidates that the wrong options are drawn from
_ENDS = (".", "。", "．", ";", "；", "!", "?", "？")
_COMBINATION = re.compile(r"^[①-⑳ⅠⅡⅢⅣⅤ]|^(?:I{1,3}|IV|V)\b")
Kind = tuple[bool, ...]
Candidate = tuple[int, str, frozenset[str]]  # characters, text, the items (and clusters) that have it


class OtherDistractors(Variant):
    """Wrong options are replaced by options of other items: of the same subject, of the right one's length and kind
    (a number, a capital, a full stop), never one of the item's own.

    The right one's length is drawn to be anywhere among theirs, so it tells nothing. What an item
    memorised is of no use: its wrong options are gone. Left out is where a text from elsewhere may be right too
    (what is *not* so, the best, any true statement). Whether one is, all the same, no rule can know."""

    name = "other_distractors"
    independent = True

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        if -1 in draft.origin:
            raise NotApplicable(OF_OTHERS)
        if any(_COMBINATION.match(choice) for choice in draft.choices):
            raise NotApplicable("its options are combinations of what the question lists")
        if all_named(draft.question, draft.choices):
            raise NotApplicable("its question names all the options")
        if any_text_may_be_right(draft.question):
            raise NotApplicable("an option of another question may be right here")
        right, n = draft.choices[draft.gold], len(draft.choices) - 1
        taken = _draw(_candidates(draft, right), draft, n, rng)
        if len(taken) < n:
            raise NotApplicable("too few options of other items are like its own")
        rng.shuffle(taken)
        kept = iter(taken)
        places = range(n + 1)
        choices = tuple(right if place == draft.gold else next(kept) for place in places)
        # They stand for no choice of the item: -2 and below tells them apart.
        origin = tuple(draft.origin[draft.gold] if place == draft.gold else -2 - place for place in places)
        return [replace(draft, choices=choices, origin=origin)]


def _draw(found: list[Candidate], draft: Draft, n: int, rng: Random) -> list[str]:
    """Draw `n` of the texts next to the right one by length, a drawn number of them before it: so it stands among
    them like any other, and neither the longest nor the middle one is right more often."""
    right = draft.choices[draft.gold]
    middle = bisect_left(found, (len(right), right))
    low, high = _near(found[:middle][::-1], draft), _near(found[middle:], draft)
    before = rng.randint(max(0, _WINDOW - len(high)), _WINDOW)
    window = low[:before] + high[: max(_WINDOW - before, _WINDOW - len(low))]
    return rng.sample(window, n) if len(window) >= n else []


def _near(side: list[Candidate], draft: Draft) -> list[str]:
    """Find the nearest that are not of this item, nor of its cluster."""
    own = {same(choice) for choice in draft.choices}
    about = {draft.item.id, draft.item.cluster} - {""}
    texts = (text for _, text, items in side if not items & about and same(text) not in own)
    return list(islice(texts, _WINDOW))


def _candidates(draft: Draft, right: str) -> list[Candidate]:
    """List options of the items of this language and subject by length: of the right one's kind if enough, else
    with digits as it, else all."""
    pool, about = draft.pool, (draft.lang, draft.item.subject)
    found = pool.cached(("options", *about), lambda: _options(pool, *about))
    kind = _kind(right)
    for known in (kind, kind[:1]):
        alike = [each for of_kind, each in found.items() if of_kind[: len(known)] == known]
        if sum(map(len, alike)) >= 2 * _WINDOW:
            return alike[0] if len(alike) == 1 else _sorted(pool, ("options", *about, known), alike)
    return _sorted(pool, ("options", *about, ()), found.values())


def _sorted(pool: Pool, key: tuple[object, ...], parts: Iterable[list[Candidate]]) -> list[Candidate]:
    return pool.cached(key, lambda: sorted(chain.from_iterable(parts), key=itemgetter(0, 1)))


def _options(pool: Pool, lang: str, subject: str) -> dict[Kind, list[Candidate]]:
    texts: dict[str, tuple[str, set[str]]] = {}
    for item in pool.items:
        if not isinstance(item, Item) or (item.lang, item.subject) != (lang, subject):
            continue
        own = any(_COMBINATION.match(choice) for choice in item.choices) or options_refer_to_options(item.choices)
        for choice in () if own else item.choices:
            text, items = texts.setdefault(same(choice), (choice, set()))
            items |= {item.id, item.cluster} - {""}
            if choice < text:  # of equal ones the same whatever the items' order
                texts[same(choice)] = choice, items
    ordered = sorted(texts.values(), key=lambda one: (len(one[0]), one[0]))
    return grouped((_kind(text), (len(text), text, frozenset(items))) for text, items in ordered)


def _kind(text: str) -> Kind:
    """Describe the visible kind of a text: digits, a capital, a full stop."""
    return any(character.isdigit() for character in text), text[:1].isupper(), text.endswith(_ENDS)


# Different words for one answer, of which a question has one option at most.
_UNKNOWN = re.compile(
    r"(?:it )?(?:can(?:no|'|’)?t|can not|could not|couldn't|is impossible to|not) (?:be )?"
    r"(?:determined?|known?|answer(?:ed|able)?|tell|told|say|inferred|enough (?:info|information|data))"
    r"|unknown|undetermined|unanswerable|(?:there is )?(?:not enough|insufficient) (?:info|information|data)"
    r"|(?:条件不足，?)?(?:无法|不能|难以)(?:确定|判断|知道|得知)|不(?:确定|知道)|未知",
    re.IGNORECASE)


def same(text: str) -> str:
    """Strip a text of what makes no other answer: case, spaces, marks at its ends; all words for "unknown" are one."""
    bare = text.strip(" \t\n.,;:。，；：")
    return "unknown" if _UNKNOWN.fullmatch(bare) else "".join(bare.casefold().split())
