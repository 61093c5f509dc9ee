"""Texts that a model writes, and the faults that rules see in them."""

import itertools
import math
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from argosy.core.plugins import unknown
from argosy.core.statistics.intervals import Estimate, mean
from argosy.core.statistics.metric import Metric, probability, share
from argosy.corpus.text.faults import RULES, Generated, faults
from argosy.corpus.text.scripts import words
from argosy.evidence.judging.judges import answers_of
from argosy.evidence.judging.records import Prompt, read_prompts
from argosy.evidence.results.items import digest
from argosy.evidence.results.suite import locate
from argosy.model.infer.model import LanguageModel
from probes.kinds import Measurement, Probe, Scope


class Generation(Probe):
    """Faults of greedy or sampled answers by the rules of argosy.corpus.text.faults (docs/evaluation.md).

    Measures: `<rule>` (share of answers with that fault, among those that the rule applies to), faultless (share of
    answers without any), length (words; Han: characters), distinct2 (different pairs of words among all pairs of all
    answers: Li et al. 2016; falls when every answer is alike).

    One source: `prompts` or `file`. A chat model answers in its template, any other goes on with the prompt's text."""

    kind: ClassVar[str] = "generation"
    declared: ClassVar[Mapping[str, Metric]] = {
        **dict.fromkeys(RULES, share("lower")),
        "faultless": share(), "length": Metric("neither", "words"), "distinct2": probability("neither")}  # fmt: skip
    prompts: tuple[str, ...] = ()
    file: str = ""
    """JSONL of id, prompt"""
    max_new_tokens: int = Field(128, ge=1)
    temperature: float = Field(0.0, ge=0)
    rules: tuple[str, ...] = ()
    """rules that are used; empty: all"""

    def check_fields(self) -> None:
        if bool(self.prompts) == bool(self.file):
            raise ValueError("give one of prompts, file")
        for rule in self.rules:
            if rule not in RULES:
                raise ValueError(f"rules: {unknown(rule, RULES, 'rule')}")

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        result = Measurement()
        prompts = self._prompts(scope, result)
        answers = answers_of(model, prompts, chat=scope.chat, max_new_tokens=self.max_new_tokens,
                             temperature=self.temperature, seed=scope.seed)  # fmt: skip
        shares: dict[str, list[float]] = {}
        for prompt, answer in zip(prompts, answers, strict=True):
            every = faults(Generated(prompt.text, answer.text, answer.ended))
            wrong = {rule: fault for rule, fault in every.items() if not self.rules or rule in self.rules}
            for rule, fault in {**wrong, "faultless": not any(wrong.values())}.items():
                shares.setdefault(rule, []).append(float(fault))
            result.rows.append({
                "id": prompt.id, "prompt": prompt.text,
                "asked": digest(prompt.text, self.max_new_tokens, self.temperature), "answer": answer.text,
                "ended": answer.ended, "faults": [rule for rule, fault in wrong.items() if fault]})  # fmt: skip
        texts = [words(answer.text) for answer in answers]
        result.measures = {name: mean(values) for name, values in sorted(shares.items())}
        result.measures["length"] = mean([float(len(text)) for text in texts])
        pairs = [pair for text in texts for pair in itertools.pairwise(text)]
        if pairs:  # the share of different ones; its error is unknown, since pairs depend on each other
            result.measures["distinct2"] = Estimate(len(set(pairs)) / len(pairs), math.nan, len(pairs))
        return result

    def _prompts(self, scope: Scope, result: Measurement) -> list[Prompt]:
        if self.file:
            return read_prompts(locate(self.file, scope.data, "prompts"), result.left_out)[: scope.limit]
        return [Prompt(str(number), text) for number, text in enumerate(self.prompts)][: scope.limit]
