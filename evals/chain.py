"""A chain of variants, as suites write it, and the questions it makes, with the worked examples before them.

    chinese_labels: labels                                 # one, as it is
    dropped: [{none_of_the_others: {drop: right}}, labels] # several, one after the other
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

from argosy.core.config.explain import grouped, validated
from argosy.core.errors import InputError
from evals.items import AnyItem, Identity, OpenItem, identity
from evals.question import EMPTY, Draft, Layout, Pool, Question
from evals.variants import (
    OF_OTHERS,
    VARIANTS,
    GeneratedForm,
    HarnessRequests,
    NotApplicable,
    Variant,
    added_about_others,
    labelled_form,
    open_form,
    options_refer_to_options,
)

_SPARE = 4  # more examples than are needed, drawn at a time: one of them may be the item of the question
_UNUSED = Random(0)  # seeding one takes longer than most variants
_SEVERAL = "has several right options (single_answers or generative ask for them)"


@dataclass(frozen=True)
class Chain:
    """Variants applied one after the other; the empty chain is the published form."""

    name: str
    variants: tuple[Variant, ...]

    @property
    def knowledge(self) -> bool:
        """Whether it asks for what the model knows, and so counts in the headline of a comparison."""
        return all(variant.knowledge for variant in self.variants)

    @property
    def directed(self) -> bool:
        """Whether its metrics are better one way."""
        return all(variant.directed for variant in self.variants)

    @property
    def learning(self) -> Variant | None:
        """Return the part by which copies of the checkpoint learn the items before they are asked; None: none does."""
        return next((variant for variant in self.variants if variant.learns), None)

    @property
    def few_shot(self) -> bool:
        """Whether worked examples stand before its questions."""
        return any(variant.name == "few_shot" for variant in self.variants)

    def questions(self, item: AnyItem, seed: int, pool: Pool = EMPTY) -> list[Question]:
        """Make the questions of `item`: a function of the item, the chain's parts and the seed alone, and for variants
        that take something from other items (few_shot, other_distractors) of those in `pool`.

        Raises NotApplicable: one of the variants cannot be made of this item."""
        drafts = self.drafts(item, seed, pool)
        numbers = range(len(drafts)) if len(drafts) > 1 else [None]
        return [draft.render(n, self._examples(draft, seed)) for n, draft in zip(numbers, drafts, strict=True)]

    def drafts(self, item: AnyItem, seed: int, pool: Pool = EMPTY, *, example: bool = False) -> list[Draft]:
        """Make the same before they are rendered, with `example` as worked examples for others."""
        drafts = [self._published(item, pool)]
        for variant in self.variants:
            rng = Random(f"{seed}/{variant.name}/{item.id}") if variant.draws else _UNUSED
            changes = variant.as_example if example else variant
            drafts = [changed for draft in drafts for changed in changes.apply(_allowed(draft, variant), rng)]
            if not drafts:
                raise RuntimeError(f"the variant {variant.name} made nothing of {item.id}: raise NotApplicable(reason)")
        for draft in drafts:  # a form that has a place for several right options, or none
            if draft.golds and not isinstance(draft.form, GeneratedForm) and not getattr(draft.form, "several", False):
                raise NotApplicable(_SEVERAL)
        return drafts

    def _published(self, item: AnyItem, pool: Pool) -> Draft:
        if isinstance(item, OpenItem):
            return Draft.of(item, open_form, pool)
        if (own := item.harness) is not None and all(variant.harness_form for variant in self.variants):
            head = own.description if self.few_shot else own.head  # in place of the examples of lm-eval's task
            return Draft.of(item, HarnessRequests(), pool, Layout(cue="", separator=own.separator, head_text=head))
        if item.harness_only:
            raise NotApplicable(item.harness_only)
        return Draft.of(item, labelled_form, pool)

    def _examples(self, draft: Draft, seed: int) -> str:
        text = examples_text(draft, repr(self.variants), seed, lambda item: self._example(item, seed, draft.pool))
        if text is None:
            raise NotApplicable(f"there are fewer than {draft.few_shot} other items to make examples of")
        return text

    def _example(self, item: AnyItem, seed: int, pool: Pool) -> Draft | None:
        try:
            return self.drafts(item, seed, pool, example=True)[0]
        except NotApplicable:
            return None

    def all_questions(self, items: Iterable[AnyItem], seed: int,
                      examples: Iterable[AnyItem] = ()) -> tuple[list[Question], Counter[str]]:
        """Make the questions of all items, and count by reason the items left out. Few-shot examples come from
        `examples`, by default from the items."""
        questions: list[Question] = []
        left_out: Counter[str] = Counter()
        items = list(items)
        pool = Pool(items, examples)
        for item in items:
            try:
                questions += self.questions(item, seed, pool)
            except NotApplicable as reason:
                left_out[str(reason)] += 1
        return questions, left_out


def _allowed(draft: Draft, variant: Variant) -> Draft:
    if not draft.choices and not variant.open:
        raise NotApplicable("has no options")
    if draft.golds and not variant.several:
        raise NotApplicable(_SEVERAL)
    if variant.independent and options_refer_to_options(draft.own_choices):
        raise NotApplicable(OF_OTHERS)
    if variant.reorders and added_about_others(draft.choices, draft.origin, above=True):
        raise NotApplicable("an added option speaks of those above it, and has to stay the last")
    return draft


def parse_chain(name: str, spec: object = None) -> Chain:
    """Parse a chain from YAML: None (the variant `name`), a name, {name: {parameter: value}}, or a list of these.
    Raises InputError: an unknown variant (with the nearest) or parameter, or a value that is not allowed."""
    parts: Sequence[object] = spec if isinstance(spec, list) else [name if spec is None else spec]
    return Chain(name, tuple(_parse(part) for part in parts))


def _parse(part: object) -> Variant:
    if isinstance(part, str):
        part = {part: {}}
    if not isinstance(part, Mapping) or len(part) != 1:
        raise InputError(f"variant {part!r}: write a name, or {{name: {{parameter: value}}}}")
    ((name, parameters),) = part.items()
    variant = VARIANTS.pick(str(name))
    return validated(variant, parameters or {}, {(): f"variant {variant.name}"})


Make = Callable[[AnyItem], Draft | None]


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

    def __init__(self, source: Iterator[Example], size: int,
                 order: Callable[[list[Example], int], list[Example]]) -> None:
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
    """Write the draft's examples, or None: too few. `make` drafts an item as the chain does; `key` names the chain."""
    n, item, pool = draft.few_shot, draft.item, draft.pool
    if not n:
        return ""
    if not pool.examples:
        return None
    ordered = pool.cached((key, seed, n, draft.few_shot_choose, item.lang, item.subject),
                          lambda: _ordered(draft, seed, make))  # fmt: skip
    chosen = _without(ordered, n, item, same_ids=pool.examples is pool.items)
    return "".join(example.text for example in chosen) if len(chosen) == n else None


def _worked(draft: Draft) -> Example | None:
    """Write a worked example; None where the form has none of this item."""
    try:
        rendered = draft.form(draft)
        written = draft.form.worked(draft) if isinstance(draft.form, GeneratedForm) else None
    except NotApplicable:
        return None
    if written is not None:
        answer = place = written
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
    made = (example for item in items if (drafted := make(item)) and (example := _worked(drafted)))
    if not balanced:
        return Examples(made, size, lambda drawn, _: drawn)
    return Examples(made, 8 * size, lambda drawn, time: _balanced(drawn, f"{about}/{time}" if time else about))


def _balanced(examples: Sequence[Example], seed: str) -> list[Example]:
    """Take round after round one of each place, in an order that is drawn."""
    places = grouped((example.place, example) for example in examples)
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
