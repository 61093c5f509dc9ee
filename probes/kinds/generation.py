"""Texts that a model writes, and what rules find wrong with them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import ClassVar, Self

from pydantic import Field, model_validator

from argosy.cleaning.text import words
from argosy.config_explain import nearest
from argosy.evaluation.asked import digest
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.named_files import locate
from argosy.judging.answers import answers_of
from argosy.judging.records import Prompt, read_prompts
from argosy.quality import Generated, faults, registered
from argosy.statistics.intervals import Estimate, mean
from probes.probe import Measured, Probe, Scope


class Generation(Probe):
    """Greedy answers, or sampled ones, looked at by the rules of argosy.quality (docs/judging.md).

    Measures: `<rule>` (share of answers with that fault, among those that the rule speaks of), faultless (share of
    answers without any), length (words; Han: characters), distinct2 (different pairs of words among all pairs of all
    answers: Li et al. 2016; falls when every answer is alike).

    One source: `prompts`, or `file` (JSONL of id, prompt). A chat model is asked in its template, any other goes on
    with the prompt's text. `rules`: those that are used (default: all).
    """

    kind: ClassVar[str] = "generation"
    prompts: tuple[str, ...] = ()
    file: str = ""
    max_new_tokens: int = Field(128, ge=1)
    temperature: float = Field(0.0, ge=0)
    rules: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _known(self) -> Self:
        if bool(self.prompts) == bool(self.file):
            raise ValueError("give one of prompts, file")
        for rule in self.rules:
            if rule not in registered():
                near = nearest(rule, registered())
                raise ValueError(f"rules has {rule!r}; allowed: {', '.join(near or registered())}")
        return self

    def measure(self, model: LanguageModel, scope: Scope) -> Measured:
        """Write and look."""
        found = Measured()
        asked = self._prompts(scope, found)
        answers = answers_of(model, asked, chat=scope.chat, max_new_tokens=self.max_new_tokens,
                             temperature=self.temperature, seed=scope.seed)  # fmt: skip
        shares: dict[str, list[float]] = {}
        for prompt, answer in zip(asked, answers, strict=True):
            wrong = self._faults(Generated(prompt.text, answer.text, answer.ended))
            for rule, fault in {**wrong, "faultless": not any(wrong.values())}.items():
                shares.setdefault(rule, []).append(float(fault))
            found.rows.append(
                {
                    "id": prompt.id,
                    "prompt": prompt.text,
                    "asked": digest(prompt.text, self.max_new_tokens, self.temperature),
                    "answer": answer.text,
                    "ended": answer.ended,
                    "faults": [rule for rule, fault in wrong.items() if fault],
                }
            )
        texts = [words(answer.text) for answer in answers]
        found.measures = {name: mean(values) for name, values in sorted(shares.items())}
        found.measures["length"] = mean([float(len(text)) for text in texts])
        if (spread := _distinct(texts)) is not None:
            found.measures["distinct2"] = spread
        return found

    def _prompts(self, scope: Scope, found: Measured) -> list[Prompt]:
        if self.file:
            return read_prompts(locate(self.file, scope.data, "prompts"), found.left_out)[: scope.limit]
        return [Prompt(str(number), text) for number, text in enumerate(self.prompts)][: scope.limit]

    def _faults(self, generated: Generated) -> dict[str, bool]:
        found = faults(generated)
        return {rule: fault for rule, fault in found.items() if not self.rules or rule in self.rules}


def _distinct(texts: Sequence[Sequence[str]]) -> Estimate | None:
    """Share of different pairs; its error is not known, since pairs depend on each other."""
    pairs = [pair for text in texts for pair in itertools.pairwise(text)]
    return Estimate(len(set(pairs)) / len(pairs), math.nan, len(pairs)) if pairs else None
