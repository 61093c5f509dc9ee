"""A chain of variants, as suites write it, and the questions it makes."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Any

from argosy.errors import InputError
from evals.generative import GeneratedForm, open_form
from evals.items import AnyItem, OpenItem
from evals.own_form import asked_as_its_own, own_draft
from evals.pool import EMPTY, Pool
from evals.question import Draft, Question, labelled_form
from evals.shots import examples
from evals.variants.registry import NotApplicable, Variant, registered

_UNUSED = Random(0)  # seeding one takes longer than most variants


@dataclass(frozen=True)
class Chain:
    """Variants applied one after the other; the empty chain is the published form."""

    name: str
    variants: tuple[Variant, ...]

    @property
    def knowledge(self) -> bool:
        """Whether it asks for what the model knows, and so counts in the headline of a comparison."""
        return all(getattr(variant, "knowledge", True) for variant in self.variants)

    def questions(self, item: AnyItem, seed: int, pool: Pool = EMPTY) -> list[Question]:
        """The questions made of `item`; a function of the item, the chain's parts and the seed alone, and for
        variants that take something from other items (few_shot, other_distractors) of those in `pool`.

        Raises:
            NotApplicable: one of the variants cannot be made of this item.
        """
        drafts = self.drafts(item, seed, pool)
        numbers = range(len(drafts)) if len(drafts) > 1 else [None]
        return [draft.render(n, self._shots(draft, seed)) for n, draft in zip(numbers, drafts, strict=True)]

    def drafts(self, item: AnyItem, seed: int, pool: Pool = EMPTY, *, shot: bool = False) -> list[Draft]:
        """The same before they are rendered; `shot`: as a worked example for others.

        Raises:
            NotApplicable: as above.
        """
        drafts = [self._published(item, pool)]
        for variant in self.variants:
            rng = Random(f"{seed}/{variant.name}/{item.id}") if getattr(variant, "draws", True) else _UNUSED
            changes = getattr(variant, "as_shot", variant) if shot else variant
            drafts = [changed for draft in drafts for changed in changes.apply(_allowed(draft, variant), rng)]
        if any(draft.golds and not _asks_for_several(draft) for draft in drafts):
            raise NotApplicable("has several right options (single_answers or generative ask for them)")
        return drafts

    def _published(self, item: AnyItem, pool: Pool) -> Draft:
        if isinstance(item, OpenItem):
            return Draft.of(item, open_form, pool)
        if asked_as_its_own(item, self.variants):
            return own_draft(item, pool, shots=any(variant.name == "few_shot" for variant in self.variants))
        if item.own_alone:
            raise NotApplicable(item.own_alone)
        return Draft.of(item, labelled_form, pool)

    def _shots(self, draft: Draft, seed: int) -> str:
        """The worked examples before a draft."""
        text = examples(draft, repr(self.variants), seed, lambda item: self._as_shot(item, seed, draft.pool))
        if text is None:
            raise NotApplicable(f"there are fewer than {draft.shots} other items to make examples of")
        return text

    def _as_shot(self, item: AnyItem, seed: int, pool: Pool) -> Draft | None:
        try:
            return self.drafts(item, seed, pool, shot=True)[0]
        except NotApplicable:
            return None

    def all_questions(
        self, items: Iterable[AnyItem], seed: int, pool: Iterable[AnyItem] = ()
    ) -> tuple[list[Question], Counter[str]]:
        """Questions of all items, and how many items were left out for which reason. Shots come from `pool`, by
        default from the items."""
        questions: list[Question] = []
        left_out: Counter[str] = Counter()
        items = list(items)
        others = Pool(items, pool)
        for item in items:
            try:
                questions += self.questions(item, seed, others)
            except NotApplicable as reason:
                left_out[str(reason)] += 1
        return questions, left_out


def _asks_for_several(draft: Draft) -> bool:
    """Whether its form has a place for several right options."""
    return isinstance(draft.form, GeneratedForm) or getattr(draft.form, "several", False)


def _allowed(draft: Draft, variant: Variant) -> Draft:
    """The draft, where the variant says that it can be made of its kind."""
    if not draft.choices and not getattr(variant, "open", False):
        raise NotApplicable("has no options")
    if draft.golds and not getattr(variant, "several", False):
        raise NotApplicable("has several right options (single_answers or generative ask for them)")
    return draft


def parse_chain(name: str, spec: object = None) -> Chain:
    """A chain from YAML: None (the variant `name`), a name, {name: {parameter: value}}, or a list of these.

    Raises:
        InputError: an unknown variant (with the nearest) or parameter, or a value that is not allowed.
    """
    parts: Sequence[object] = spec if isinstance(spec, list) else [name if spec is None else spec]
    return Chain(name, tuple(_parse(part) for part in parts))


def _parse(part: object) -> Variant:
    if isinstance(part, str):
        part = {part: {}}
    if not isinstance(part, Mapping) or len(part) != 1:
        raise InputError(f"variant {part!r}: write a name, or {{name: {{parameter: value}}}}")
    ((name, parameters),) = part.items()
    if name not in registered():
        near = difflib.get_close_matches(str(name), registered(), n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"unknown variant {name!r}{hint} (there are: {', '.join(registered())})")
    return _make(registered()[name], parameters or {})


def _make(variant: type[Variant], parameters: Mapping[str, Any]) -> Variant:
    allowed = [field.name for field in fields(variant)]  # type: ignore[arg-type]
    wrong = [key for key in parameters if key not in allowed]
    if wrong:
        raise InputError(f"variant {variant.name}: no parameter {wrong[0]!r}; it has {', '.join(allowed) or 'none'}")
    try:
        return variant(**parameters)
    except ValueError as error:
        raise InputError(f"variant {variant.name}: {error}") from None
