"""Items of lm-eval's own tasks in the form in which these ask them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from evals.items import AnyItem, Item, OwnForm
from evals.layout import Layout
from evals.pool import Pool
from evals.question import Draft, Rendered


class OwnRequests:
    """The item's `own` requests."""

    several: ClassVar[bool] = True

    def __call__(self, draft: Draft) -> Rendered:
        """Prompt and continuations."""
        own = _own(draft.item)
        prompts = own.prompts if len(own.prompts) > 1 else ()
        return Rendered(own.prompts[0], own.continuations, own.labelled, None, prompts)


def asked_as_its_own(item: AnyItem, variants: Sequence[object]) -> bool:
    """Whether a chain of these variants asks it as lm-eval does: each of them says so (`own_form = True`)."""
    own = isinstance(item, Item) and item.own is not None
    return own and all(getattr(variant, "own_form", False) for variant in variants)


def own_draft(item: AnyItem, pool: Pool, *, shots: bool) -> Draft:
    """The item as its task asks it; with `shots`, without the examples that the task itself gives."""
    own = _own(item)
    layout = Layout(cue="", separator=own.separator, head_text=own.description if shots else own.head)
    return replace(Draft.of(item, OwnRequests(), pool), layout=layout)


def _own(item: AnyItem) -> OwnForm:
    if not isinstance(item, Item) or item.own is None:
        raise ValueError(f"item {item.id} is not of a task of lm-eval")
    return item.own
