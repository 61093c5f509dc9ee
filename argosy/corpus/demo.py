"""The demo's data from a seed: documents with dirt, and everything that is made of the fact tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from argosy.config import Config

Record = dict[str, Any]


class DemoConfig(Config):
    """Sizes of the demo's data.

    `knowledge_repeats`: times that each fact is stated in prose, `quiz_repeats`: times that each taught fact
    is asked in a quiz with options, `answer_repeats`: without options (all for each language); `taught_share`:
    facts that quizzes and instructions ask about, the benchmark asks about the rest; `dirt_per_kind`: dirty
    documents of each kind.
    """

    english_bytes: Annotated[int, Field(ge=0)] = 900_000
    code_bytes: Annotated[int, Field(ge=0)] = 700_000
    knowledge_repeats: Annotated[int, Field(ge=0)] = 30
    quiz_repeats: Annotated[int, Field(ge=0)] = 2
    answer_repeats: Annotated[int, Field(ge=0)] = 15
    taught_share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    dirt_per_kind: Annotated[int, Field(ge=0)] = 40
    instructions: Annotated[int, Field(ge=1)] = 2400
    preferences: Annotated[int, Field(ge=1)] = 1200
    prompts: Annotated[int, Field(ge=1)] = 600


@dataclass(frozen=True)
class Demo:
    """The demo's records, each list a pure function of the config and the seed."""

    config: DemoConfig
    seed: int

    @cached_property
    def facts(self) -> tuple[list[Any], list[Any], list[Any]]:
        """(all facts, the taught ones, the benchmark's)."""
        from argosy.demo.facts import load_facts, split_facts

        facts = load_facts()
        return facts, *split_facts(facts, self.seed, self.config.taught_share)

    def fact_records(self) -> Iterator[Record]:
        """Each fact: id, relation, subject and answer by language, and whether training asks about it."""
        facts, taught, _ = self.facts
        known = {fact.id for fact in taught}
        for fact in facts:
            names = {"id": fact.id, "relation": fact.relation, "subject": fact.subject, "answer": fact.answer}
            yield names | {"taught": fact.id in known}

    def documents(self) -> Iterator[Record]:
        """The clean documents of all channels, then the dirty ones."""
        from argosy.demo.corpus.dirt import dirty_documents

        clean = list(self._clean())
        yield from clean
        count = self.config.dirt_per_kind
        if count and clean:
            yield from map(dict, dirty_documents(clean, list(self._spare()), self.benchmark(), count, self.seed))

    def _clean(self) -> Iterator[Any]:
        from argosy.demo.corpus.code import code_documents
        from argosy.demo.corpus.english import english_documents
        from argosy.demo.corpus.knowledge import answer_documents, knowledge_documents, quiz_documents
        from argosy.demo.facts import LANGS

        c, (facts, taught, _) = self.config, self.facts
        yield from english_documents(self.seed, c.english_bytes)
        yield from code_documents(self.seed, c.code_bytes)
        for lang in LANGS:
            yield from knowledge_documents(facts, lang, c.knowledge_repeats, self.seed)
            yield from quiz_documents(taught, lang, c.quiz_repeats, self.seed)
            yield from answer_documents(taught, lang, c.answer_repeats, self.seed)

    def _spare(self) -> Iterator[Any]:
        """Prose that is not in the corpus, ten documents for each of `dirt_per_kind`, for dirt to be made of."""
        from argosy.demo.corpus.english import english_documents
        from argosy.demo.corpus.knowledge import knowledge_documents
        from argosy.demo.facts import LANGS

        wanted = 10 * self.config.dirt_per_kind
        used = sum(1 for _ in english_documents(self.seed, self.config.english_bytes))
        yield from islice(english_documents(self.seed, sys.maxsize), used, used + wanted // len(LANGS))
        for lang in LANGS:
            rounds = knowledge_documents(self.facts[0], lang, wanted, f"spare/{self.seed}")
            yield from islice(rounds, wanted)

    def benchmark(self) -> list[Any]:
        """The benchmark's items, in both languages."""
        from argosy.demo.corpus.benchmark import benchmark_items

        return benchmark_items(self.facts[2], self.seed)

    def instructions(self) -> list[Any]:
        """Conversations about the taught facts."""
        from argosy.demo.corpus.instructions import conversations

        return list(conversations(self.facts[1], self.config.instructions, self.seed))

    def preferences(self) -> list[Any]:
        """Preference pairs about the taught facts."""
        from argosy.demo.corpus.preferences import preferences

        return list(preferences(self.facts[1], self.config.preferences, self.seed))

    def prompts(self) -> list[Any]:
        """Prompts about the taught facts whose reply can be checked."""
        from argosy.demo.corpus.prompts import prompts

        return list(prompts(self.facts[1], self.config.prompts, self.seed))
