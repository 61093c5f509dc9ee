"""Rewards the share of the prompt's `tests` that an answer's Python passes, or 1 where it passes all: run in a sandbox.

The code is the last fenced block, also one that is not closed, else the whole answer. A test is Python that raises
nothing where it passes."""

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from argosy.core.sandbox.run import Job, Limits, Sandbox
from argosy.corpus.data.checks import tests_problem
from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score, Surroundings, shown

_BLOCK = re.compile(r"(?ims)^[ \t]*```(?:python3?|py)?[ \t]*\n(.*?)(?:^[ \t]*```|\Z)")


class CodeConfig(RewardConfig):
    score: Literal["all", "share"] = "all"
    """all: 1 where all tests pass, else 0; share: the share of the tests that pass."""
    seconds: int = Field(default=5, ge=1, le=600)
    """CPU time of an answer with its tests."""
    wall_seconds: int = Field(default=30, ge=1, le=3600)
    """Longest time from its start to its end, whatever it waits for."""
    memory_mb: int = Field(default=512, ge=64)
    """Memory of an answer with its tests, in MiB."""


class Code(Reward[CodeConfig]):
    """The answer's code passes the tests. Raises StepError where it is made: this machine has no sandbox."""

    checks = "tests"

    def __init__(self, config: CodeConfig, surroundings: Surroundings) -> None:
        super().__init__(config, surroundings)
        self._sandbox = Sandbox(Limits(config.seconds, config.wall_seconds, config.memory_mb))
        print(f"code of answers is held by {self._sandbox.held_by}", flush=True)

    def refusal(self, reference: Sequence[str]) -> str:
        return tests_problem(reference)

    def scores(self, samples: Sequence[Sample], references: Sequence[Sequence[str]]) -> list[Score]:
        jobs = [Job(str((_BLOCK.findall(sample.text) or [sample.text])[-1]), tests)
                for sample, tests in zip(samples, references, strict=True)]  # fmt: skip
        found = []
        for outcome in self._sandbox.run(jobs):
            share = sum(outcome.passed) / len(outcome.passed)
            value = share if self.config.score == "share" else float(share == 1)
            found.append(Score(value, shown(outcome.reason, 120)))
        return found
