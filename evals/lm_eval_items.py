"""Documents of lm-eval's multiple-choice tasks as items, so that every variant can be made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from argosy.cleaning.text import HAN
from evals.formats.fields import mixed
from evals.items import LETTERS, BrokenItem, Item, Items, OwnForm
from evals.listed_options import are_labels, listed

Doc = Mapping[str, Any]
LETTERS_ALONE = "options are letters, and their texts cannot be told from the question"
NO_QUESTION = "has no question apart from its options"
_SAME = "two choices are the same"
_HAN = re.compile(f"[{HAN}]")
_LOOKED_AT = 100  # documents that tell whether the right option is always published first
_FEWEST = 5  # of which it can be told


def items_of(task: Any, docs: Sequence[Doc], *, lang: str, subject: str, name: str, limit: int | None) -> Items:
    """Items of documents, at most `limit`; one that lm-eval cannot ask, or of which no option is right, is left out.

    Args:
        task: a ConfigurableTask of type multiple_choice.
        lang, subject: of all; "": zh where there are Chinese characters, and the task's name.
        name: what ids begin with.
    """
    found, first = Items(), []
    for number, doc in enumerate(docs):
        if limit is not None and len(found.items) >= limit and number >= _LOOKED_AT:
            break
        try:
            item = _item(task, doc, f"{name}/{number}", lang, subject or task.task_name)
        except BrokenItem as reason:
            found.left_out[str(reason)] += limit is None or len(found.items) < limit
            continue
        if number < _LOOKED_AT:
            first.append(item.answer)
        if limit is None or len(found.items) < limit:
            found.items.append(item)
    if len(first) >= _FEWEST and len(set(first)) == 1:
        found.items = [_mixed(item) if isinstance(item, Item) else item for item in found.items]
    return found


def _item(task: Any, doc: Doc, id: str, lang: str, subject: str) -> Item:
    try:
        choices = tuple(task.doc_to_choice(doc))
        asked = task.doc_to_text(doc)
        own = _own(task, doc, choices)
        rights = rights_of(task, doc, choices)
    except Exception as error:  # a task's own code decides what is raised
        raise BrokenItem(f"lm-eval cannot ask it: {type(error).__name__}") from None
    if not rights:
        raise BrokenItem("answer is not among the choices")
    split = listed(asked, choices, doc) if isinstance(asked, str) else ("", choices)
    question, texts = split or (asked, choices)
    alone = LETTERS_ALONE if split is None else NO_QUESTION if not question else ""
    if not alone and (len(set(texts)) < len(texts) or not all(texts)):
        alone = _SAME if all(texts) else "choices are not a list of texts"
    if len(texts) > len(LETTERS):
        alone = f"number of choices is not within 2 to {len(LETTERS)}"
    texts = tuple(text.strip() for text in texts) if not alone else texts
    found = lang or ("zh" if _HAN.search(question + "".join(texts)) else "en")
    several = rights if len(rights) > 1 else ()
    return Item(id, found, question, texts, rights[0], several, subject, "", own, alone)


def _own(task: Any, doc: Doc, choices: tuple[str, ...]) -> OwnForm:
    """What lm-eval's harness asks, without a chat template."""
    prefix, shots = task.doc_to_prefix(doc), int(task.config.num_fewshot or 0)
    description = task.resolve_field(doc, task.config.description) or ""
    plain = task.fewshot_context(doc, 0, gen_prefix=prefix)
    whole = task.fewshot_context(doc, shots, gen_prefix=prefix) if shots else plain
    several = isinstance(plain, list)  # as many prompts as options, with one continuation
    prompts = tuple(text.removeprefix(description) for text in (plain if several else [plain]))
    first = whole[0] if several else whole
    continuations = (str(task.doc_to_target(doc)),) * len(choices) if several else choices
    head = first.removesuffix(prompts[0]) if prompts[0] else first
    return OwnForm(prompts, continuations, task.config.target_delimiter, head, description, are_labels(continuations))


def rights_of(task: Any, doc: Doc, choices: Sequence[str]) -> tuple[int, ...]:
    """Places of the right options: those that the task's target names, or, where a function of the task's own judges,
    those with which that gives more than half of an accuracy."""
    places = range(len(choices))
    if callable(task.config.process_results):
        sure = [[(0.0 if other == place else -100.0, False) for other in places] for place in places]
        return tuple(place for place in places if task.process_results(doc, sure[place]).get("acc", 0) > 0.5)
    gold = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
    golds = gold if isinstance(gold, list) else [gold]
    found = [choices.index(each) if isinstance(each, str) and each in choices else each for each in golds]
    return tuple(sorted({each for each in found if isinstance(each, int) and 0 <= each < len(choices)}))


def _mixed(item: Item) -> Item:
    """With its options in an order that its id decides, where the right one is always published at one place; its own
    form has the same requests."""
    if item.own is None or item.own_alone:
        return item
    numbered = replace(item, choices=tuple(map(str, range(len(item.choices)))))
    order = [int(number) for number in mixed(numbered).choices]
    own = item.own
    prompts = own.prompts if len(own.prompts) == 1 else tuple(own.prompts[old] for old in order)
    moved = replace(own, prompts=prompts, continuations=tuple(own.continuations[old] for old in order))
    rights = tuple(sorted(order.index(right) for right in item.answers))
    return replace(
        item,
        choices=tuple(item.choices[old] for old in order),
        own=moved,
        answers=rights,
        answer=rights[0] if rights else order.index(item.answer),
        mixed=True,
    )
