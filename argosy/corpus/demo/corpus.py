"""The demo's data from a seed: documents with dirt, and everything that is made of the fact tables.

English prose and code are of Python 3.11.7's standard library (`material/PYTHON-LICENSE.txt`), shipped, so that every
machine has the same: prose is pydoc's topics and docstrings of 80 characters and more, packed to about 2,000; code is a
file's consecutive definitions up to 2,500 characters, a larger class cut between methods, below its name."""

import gzip
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from itertools import chain, islice, product, zip_longest
from random import Random
from typing import Annotated, Any, Literal

from pydantic import Field

from argosy.core.config.schema import ADDED, Config
from argosy.corpus.data.schemas import Conversation, Document, Item, Lang, Preference, Prompt
from argosy.corpus.demo import examples
from argosy.corpus.demo.dirt import dirty_documents
from argosy.corpus.demo.facts import LANGS, Fact, load_facts, question, split_facts
from argosy.corpus.demo.knowledge import answer_documents, benchmark_items, knowledge_documents, quiz_documents

MOST = 1_400_000  # bytes of prose, or of code, that may be wanted: there is a little more


@cache
def _material() -> bytes:
    return (resources.files("argosy.corpus.demo") / "material/python.jsonl.gz").read_bytes()


def digest() -> str:
    """Return the SHA-256 of the texts."""
    return hashlib.sha256(_material()).hexdigest()


def english_documents(seed: str | int, max_bytes: int) -> Iterator[Document]:
    """Make documents of pydoc's topics and of docstrings in turn, in an order that depends on `seed`."""
    pairs = zip_longest(_documents("topic", "en", seed), _documents("docstring", "en", seed))
    yield from _until_bytes((each for each in chain.from_iterable(pairs) if each is not None), max_bytes)


def _documents(kind: str, channel: str, seed: str | int) -> Iterator[Document]:
    every = map(json.loads, gzip.decompress(_material()).splitlines())
    records = [record for record in every if record["kind"] == kind]
    Random(f"{kind}/{seed}").shuffle(records)
    for record in records:
        source = f"{kind} {record['name']}"
        for index, text in enumerate(record["texts"]):
            name = f"{channel}-{kind}-{record['name']}-{index}"
            yield Document(name, text, channel, "en", source, {"license": "PSF-2.0"})


def _until_bytes(documents: Iterable[Document], max_bytes: int) -> Iterator[Document]:
    """Yield documents as long as their texts together stay within `max_bytes` of UTF-8."""
    total = 0
    for document in documents:
        total += len(document.text.encode())
        if total > max_bytes:
            return
        yield document


Count = Annotated[int, Field(ge=0)]
Least = Annotated[int, Field(ge=1)]


class DemoConfig(Config):
    """Sizes of the demo's data."""

    english_bytes: Annotated[int, Field(ge=0, le=MOST)] = 900_000
    """Bytes of English prose."""
    code_bytes: Annotated[int, Field(ge=0, le=MOST)] = 700_000
    """Bytes of Python source."""
    knowledge_repeats: Count = 30
    """Statements of each fact in prose, in each language."""
    quiz_repeats: Count = 2
    """Quizzes with options about each taught fact, in each language."""
    answer_repeats: Count = 15
    """Questions without options about each taught fact, in each language."""
    taught_share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the facts that quizzes and instructions ask about; the benchmark asks about the rest."""
    dirt_per_kind: Count = 40
    """Dirty documents of each kind."""
    instructions: Least = 2400
    """Conversations."""
    preferences: Least = 1200
    """Preference pairs."""
    prompts: Least = 600
    """Prompts for reinforcement learning."""
    language: Annotated[Literal["both", "en", "zh"], ADDED] = "both"
    """Language of the facts, the benchmark and the records for post-training."""
    asks: Annotated[Literal["facts", "sums"], ADDED] = "facts"
    """Subject of the prompts: facts, or sums of two numbers from 20 to 39, which the reward `maths` checks; a quarter
    of the conversations then show smaller sums."""

    @property
    def langs(self) -> tuple[Lang, ...]:
        return LANGS if self.language == "both" else (self.language,)

    @property
    def channels(self) -> set[str]:
        """The channels that have documents."""
        told = self.knowledge_repeats + self.quiz_repeats + self.answer_repeats
        facts = {f"knowledge_{lang}": told for lang in self.langs}
        sizes = {"en": self.english_bytes, "code": self.code_bytes, **facts}
        return {name for name, size in sizes.items() if size}


@dataclass(frozen=True)
class Demo:
    """The demo's records, each list a pure function of the config and the seed."""

    config: DemoConfig
    seed: int

    @cached_property
    def facts(self) -> tuple[list[Fact], list[Fact], list[Fact]]:
        """Load (all facts, the taught ones, the benchmark's)."""
        facts = load_facts()
        return facts, *split_facts(facts, self.seed, self.config.taught_share)

    def fact_records(self) -> Iterator[dict[str, Any]]:
        """Describe each fact: id, relation, subject and answer by language, and whether training asks about it."""
        facts, taught, _ = self.facts
        ids = {fact.id for fact in taught}
        for fact in facts:
            names = {"id": fact.id, "relation": fact.relation, "subject": fact.subject, "answer": fact.answer}
            yield names | {"taught": fact.id in ids}

    def documents(self) -> Iterator[Document]:
        """Make the clean documents of all channels, then the dirty ones."""
        c, (facts, taught, _) = self.config, self.facts
        code = _until_bytes(_documents("code", "code", self.seed), c.code_bytes)
        clean = [*english_documents(self.seed, c.english_bytes), *code]
        for lang in c.langs:
            clean += knowledge_documents(facts, lang, c.knowledge_repeats, self.seed)
            clean += quiz_documents(taught, lang, c.quiz_repeats, self.seed)
            clean += answer_documents(taught, lang, c.answer_repeats, self.seed)
        yield from clean
        if c.dirt_per_kind and clean:
            yield from dirty_documents(clean, list(self._spare()), self.benchmark(), c.dirt_per_kind, self.seed)

    def _spare(self) -> Iterator[Document]:
        """Make prose that is not in the corpus, ten documents for each of `dirt_per_kind`, to make dirt of."""
        wanted = 10 * self.config.dirt_per_kind
        used = sum(1 for _ in english_documents(self.seed, self.config.english_bytes))
        yield from islice(english_documents(self.seed, sys.maxsize), used, used + wanted // len(LANGS))
        for lang in self.config.langs:
            yield from islice(knowledge_documents(self.facts[0], lang, wanted, f"spare/{self.seed}"), wanted)

    def benchmark(self) -> list[Item]:
        """Make the benchmark's items."""
        return benchmark_items(self.facts[2], self.seed, self.config.langs)

    def taught(self) -> Iterator[dict[str, str]]:
        """Make an open item of each fact that conversations ask about, in each language."""
        for fact, lang in product(self.facts[1], self.config.langs):
            yield {"id": f"{fact.id}/{lang}", "cluster": fact.id, "lang": lang, "question": question(fact, lang, 0),
                   "answer": fact.answer[lang], "solution": ""}

    def instructions(self) -> list[Conversation]:
        """Make conversations about the taught facts, and such that show sums where prompts ask for them."""
        count, langs = self.config.instructions, self.config.langs
        sums = count // 4 if self.config.asks == "sums" else 0
        return [*examples.conversations(self.facts[1], count - sums, self.seed, langs),
                *examples.shown_sums(sums, self.seed, langs)]

    def preferences(self) -> list[Preference]:
        """Make preference pairs about the taught facts."""
        return list(examples.preferences(self.facts[1], self.config.preferences, self.seed, self.config.langs))

    def prompts(self) -> list[Prompt]:
        """Make prompts whose reply can be checked: sums, or questions about the taught facts."""
        if self.config.asks == "sums":
            return list(examples.sums(self.config.prompts, self.seed, self.config.langs))
        return list(examples.prompts(self.facts[1], self.config.prompts, self.seed, self.config.langs))
