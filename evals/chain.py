"""A chain of variants, as suites write it, and the questions it makes.

    chinese_labels: labels                                 # one, as it is
    dropped: [{none_of_the_others: {drop: right}}, labels] # several, one after the other
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from argosy.core.config.explain import validated
from argosy.core.errors import InputError
from evals.forms import GeneratedForm, HarnessRequests, labelled_form, open_form
from evals.items import AnyItem, OpenItem
from evals.question import EMPTY, Draft, Layout, Pool, Question
from evals.variants import OF_OTHERS, VARIANTS, NotApplicable, Variant, added_about_others, options_refer_to_options
from evals.variants.few_shot import examples_text

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
        """Write the worked examples before a draft."""
        text = examples_text(draft, repr(self.variants), seed, lambda item: self._example(item, seed, draft.pool))
        if text is None:
            raise NotApplicable(f"there are fewer than {draft.few_shot} other items to make examples of")
        return text

    def _example(self, item: AnyItem, seed: int, pool: Pool) -> Draft | None:
        try:
            return self.drafts(item, seed, pool, example=True)[0]
        except NotApplicable:
            return None

    def all_questions(
        self, items: Iterable[AnyItem], seed: int, examples: Iterable[AnyItem] = ()
    ) -> tuple[list[Question], Counter[str]]:
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
    """Return the draft, where the variant can be made of its kind."""
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
