"""1 for an answer that is JSON and has the prompt's `schema` (JSON Schema, 2020-12 where it names no other), else 0.

A fence around the JSON is taken off."""

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from argosy.corpus.data.checks import schema_problem, violation
from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score, shown

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)


class JsonSchemaConfig(RewardConfig):
    fallback: dict[str, Any] = Field(default={}, alias="schema")
    """Schema for prompts that have none of their own."""

    @field_validator("fallback")
    @classmethod
    def _check_schema(cls, schema: dict[str, Any]) -> dict[str, Any]:
        if wrong := schema_problem(schema):
            raise ValueError(wrong)
        return schema


class JsonSchema(Reward[JsonSchemaConfig]):
    checks = "schema"

    def reference(self, fields: Mapping[str, Any]) -> Any:
        return fields.get(self.checks) or self.config.fallback or None

    def refusal(self, reference: dict[str, Any]) -> str:
        return schema_problem(reference)

    def score(self, sample: Sample, reference: dict[str, Any]) -> Score:
        fenced = _FENCE.fullmatch(sample.text)
        try:
            value = json.loads(fenced[1] if fenced else sample.text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return Score(0.0, "no JSON")
        try:
            wrong = violation(reference, value)
        except TimeoutError:
            return Score(0.0, "a pattern was searched for longer than a second")
        return Score(0.0, shown(wrong, 100)) if wrong else Score(1.0)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
