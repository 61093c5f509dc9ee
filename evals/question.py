"""Questions, and the drafts of them that variants change."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from argosy.evidence.results.items import digest
from evals.extract import RULES
from evals.items import LETTERS, AnyItem, Item, OpenItem

CUE = {"en": "\nAnswer:", "zh": "\n答案："}
# Between the cue and an answer; Chinese has no space there.
SEPARATOR = {"en": " ", "zh": ""}


@dataclass(frozen=True)
class Generation:
    """Settings of an answer that is generated, and of how it is read.

    Attributes:
        answer: the right answer: a label ("B"), several ("AC"), or a text or number ("18").
        stops: texts that end it; they are no part of it.
        max_tokens: how many tokens are generated at most.
        extract: name of the rule (evals/extract) that finds the answer in the text.
        labels: the labels that the prompt lists; "" where there are none.
        among: the options' texts as the rule writes them, where the prompt lists them without labels.
        samples: how many answers are drawn at `temperature` (0: one, greedily); the most frequent one counts.
        pass_at: numbers of them of which one has to be right, each a metric (pass_at_k)."""

    answer: str
    stops: tuple[str, ...]
    max_tokens: int
    extract: str
    labels: str = ""
    among: tuple[str, ...] = ()
    samples: int = 1
    temperature: float = 0.0
    pass_at: tuple[int, ...] = ()

    @property
    def settings(self) -> list[object]:
        """List what of it counts in the digest of a question."""
        sampled = [self.samples, self.temperature] if self.temperature else []
        return [self.stops, self.max_tokens, self.extract, self.labels, *sampled]


@dataclass(frozen=True)
class Layout:
    """Texts around a question and its options. The default is the demo corpus's; benchmarks have their own (`layout`).

    Attributes:
        before: text before each question, such as "Question: ".
        options: between options: " " (all on one line) or a line's end.
        mark: after a label, such as ". "; None: as the language writes it.
        cue: after question and options; None: CUE.
        separator: between cue and answer; None: SEPARATOR.
        description: the beginning of a prompt, once, before worked examples; `{subject}` is the item's.
        head_text: the same, as it stands."""

    before: str = ""
    options: str = " "
    mark: str | None = None
    cue: str | None = None
    separator: str | None = None
    description: str = ""
    head_text: str = ""

    def head(self, subject: str) -> str:
        """Write the description of a subject such as "college_biology"."""
        return self.head_text + self.description.replace("{subject}", subject.replace("_", " "))


PUBLISHED = Layout()
T = TypeVar("T")


class Pool:
    """The items of a task, and those that few-shot examples come from (by default the same), with a cache.

    A draw must not depend on the order of items: sort `items` before drawing from it."""

    def __init__(self, items: Iterable[AnyItem] = (), examples: Iterable[AnyItem] = ()) -> None:
        self.items = tuple(items)
        self.examples = tuple(examples) or self.items
        self._cache: dict[Hashable, object] = {}

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, made once for each key."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]  # type: ignore[return-value]


EMPTY = Pool()


@dataclass(frozen=True)
class Question:
    """One prompt and the continuations that are scored after it, or the settings of the text generated after it.

    Attributes:
        item: id of the item it was made of; all questions of one item share it.
        id: unique in the variant: `<item>` or `<item>#<number>`.
        prompt: the text before the answer, without a space at its end.
        continuations: one an option; the answers' texts, without the space before them. () where it is generated.
        gold: index of the right continuation or option (0 where the answer is generated and is not one option).
        origin: for each continuation the index of the item's choice that it stands for; -1: "none of the others",
            or "not this one"; below -1: none of its choices.
        labelled: whether continuations are labels (of options that the prompt lists), not the options' texts.
        generation: how the answer is generated, where nothing is scored.
        cluster: errors are clustered by it: the item's cluster, or the item.
        calibration: it measures a preference for places alone; accuracies leave it out.
        separator: text between the prompt and a continuation; None: the language's (SEPARATOR).
        prompts: a prompt an option, where options stand in the prompt and what follows is scored (Winogrande's
            partial evaluation); then `prompt` is the first. () where all options follow `prompt`.
        golds: indexes of all right continuations, where several are (TruthfulQA's MC2); else ().
        mixed: whether the item's options have no published order (Item.mixed)."""

    item: str
    id: str
    lang: str
    prompt: str
    continuations: tuple[str, ...]
    gold: int
    origin: tuple[int, ...]
    labelled: bool
    generation: Generation | None = None
    cluster: str = ""
    calibration: bool = False
    separator: str | None = None
    prompts: tuple[str, ...] = ()
    golds: tuple[int, ...] = ()
    mixed: bool = False

    @property
    def requests(self) -> list[tuple[str, str]]:
        """(prompt, continuation without the separator) of each option."""
        prompts = self.prompts or (self.prompt,) * len(self.continuations)
        return list(zip(prompts, self.continuations, strict=True))

    @property
    def before(self) -> str:
        """The text between the prompt and a continuation, outside of a chat."""
        return SEPARATOR[self.lang] if self.separator is None else self.separator

    @property
    def chance(self) -> float:
        """The accuracy of a guess: 1 / options; 1 / (2^n - 1) for a set of n options; 0 for an open answer."""
        if self.generation is None:
            return max(1, len(self.golds)) / len(self.continuations)
        options = len(self.generation.labels or self.generation.among)
        if not options:
            return 0.0
        return 1 / (2**options - 1) if RULES.pick(self.generation.extract).sets else 1 / options

    @property
    def digest(self) -> str:
        """Hash the question as the model sees it: the prompt with its examples, and the scored texts or the settings of
        the generated one. For one of several questions of an item in any order of its options: the seed draws it."""
        texts: list[Sequence[str]] = [self.prompts or (self.prompt,), self.continuations]
        if self.id != self.item:
            texts = [sorted("".join(sorted(text)) for text in each) for each in texts]
        return digest(texts, self.before, self.generation.settings if self.generation else [])


class Rendered(NamedTuple):
    """A draft in its form."""

    prompt: str
    continuations: tuple[str, ...]
    labelled: bool
    generation: Generation | None = None
    prompts: tuple[str, ...] = ()  # of each option, where they differ
    shown: bool = True  # whether the prompt lists the options


@dataclass(frozen=True)
class Draft:
    """A question in the making, which a chain of variants changes. `form` renders it at the end.

    `golds` has all right options where several are; else it is (). Of an open item `choices` is (), and `answer` and
    `solution` are the right answer's texts. `pool` has other items, for variants that take something from them."""

    item: AnyItem
    question: str
    choices: tuple[str, ...]
    gold: int
    origin: tuple[int, ...]
    form: "Form"
    labels: str = LETTERS
    preamble: str = ""  # text before the question
    golds: tuple[int, ...] = ()
    answer: str = ""
    solution: str = ""
    layout: Layout = PUBLISHED
    calibration: bool = False
    few_shot: int = 0  # number of worked examples before it
    few_shot_choose: str = "balanced"
    pool: Pool = field(default=EMPTY, repr=False, compare=False)

    @classmethod
    def of(cls, item: AnyItem, form: "Form", pool: Pool = EMPTY, layout: Layout = PUBLISHED) -> "Draft":
        """Draft the item as it was published."""
        if isinstance(item, OpenItem):
            return cls(item, item.question, (), 0, (), form, answer=item.answer, solution=item.solution, pool=pool)
        golds = item.answers if len(item.answers) > 1 else ()
        origin = tuple(range(len(item.choices)))
        return cls(item, item.question, item.choices, item.answer, origin, form, golds=golds, layout=layout, pool=pool,
                   solution=item.solution)  # fmt: skip

    @property
    def lang(self) -> str:
        return self.item.lang

    @property
    def cue(self) -> str:
        """The end of the prompt."""
        return CUE[self.lang] if self.layout.cue is None else self.layout.cue

    @property
    def own_choices(self) -> tuple[str, ...]:
        """The options that are the item's, without an added "none of the others"."""
        return tuple(choice for choice, origin in zip(self.choices, self.origin, strict=True) if origin >= 0)

    @property
    def separator(self) -> str:
        """The text between the cue and an answer."""
        return SEPARATOR[self.lang] if self.layout.separator is None else self.layout.separator

    @property
    def rights(self) -> tuple[int, ...]:
        return self.golds or ((self.gold,) if self.choices else ())

    def with_options(self, kept: Sequence[int]) -> "Draft":
        """Keep these options alone, in this order; `kept` has all right ones."""
        golds = tuple(place for place, old in enumerate(kept) if old in self.rights)
        return replace(self, choices=tuple(self.choices[old] for old in kept),
                       origin=tuple(self.origin[old] for old in kept), gold=golds[0], golds=golds if self.golds else ())

    def render(self, number: int | None, head: str = "") -> Question:
        """Render the question; `number` tells the questions of one item apart, `head` (examples) comes before all."""
        rendered = self.form(self)
        before = self.layout.head(self.item.subject) + head + self.preamble
        return Question(
            item=self.item.id, id=self.item.id if number is None else f"{self.item.id}#{number}", lang=self.lang,
            prompt=before + rendered.prompt, continuations=rendered.continuations, gold=self.gold, origin=self.origin,
            labelled=rendered.labelled, generation=rendered.generation, cluster=self.item.cluster or self.item.id,
            calibration=self.calibration, separator=self.layout.separator,
            prompts=tuple(before + prompt for prompt in rendered.prompts),
            golds=self.golds if rendered.continuations else (), mixed=isinstance(self.item, Item) and self.item.mixed)


Form = Callable[[Draft], Rendered]


def moved_on(order: Sequence[int], by: int) -> tuple[int, ...]:
    """Move an order on: the option at place `by` comes first."""
    by %= len(order)
    return (*order[by:], *order[:by])
