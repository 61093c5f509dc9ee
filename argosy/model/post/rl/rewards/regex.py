"""1 for an answer in which the prompt's `pattern` is found, or that matches it as a whole, else 0.

Patterns are those of Python's `re`. One that backtracks without an end is stopped at a time limit."""

from pydantic import Field, field_validator

from argosy.corpus.data.checks import find, pattern_problem
from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score, shown


class RegexConfig(RewardConfig):
    pattern: str = ""
    """Pattern for prompts that have none of their own."""
    whole: bool = False
    """Whether the answer as a whole must match."""
    seconds: float = Field(default=1.0, gt=0, le=60)
    """Longest search in an answer, which ends as 0."""

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str) -> str:
        if wrong := pattern_problem(pattern):
            raise ValueError(f"{shown(pattern)!r} is {wrong}")
        return pattern


class Regex(Reward[RegexConfig]):
    checks = "pattern"

    def refusal(self, reference: str) -> str:
        return pattern_problem(reference)

    def score(self, sample: Sample, reference: str) -> Score:
        try:
            found = find(reference, sample.text, self.config.seconds, self.config.whole)
        except TimeoutError:
            return Score(0.0, f"no match within {self.config.seconds:g} s")
        return Score(1.0, shown(found)) if found is not None else Score(0.0, "no match")
