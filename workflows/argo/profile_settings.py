"""Of a cluster profile: what is tried again, what is kept, and when the nightly evaluation starts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from argosy.config import Config


class Retry(Config):
    """When a step is started again, and how often.

    Attributes:
        failures: times that a step may fail by itself (exit code 1) before its node fails.
        out_of_memory: times that it gets more memory after having run out of it.
        memory_factor: how much more each time.
        interruptions: lost nodes, evictions, deleted pods: no fault of the step, so many times at most.
        pause_s: before the first retry; doubles up to `longest_pause_s`.
    """

    failures: int = Field(2, ge=0)
    out_of_memory: int = Field(3, ge=0)
    memory_factor: float = Field(1.5, gt=1)
    interruptions: int = Field(50, ge=0)
    pause_s: int = Field(10, ge=0)
    longest_pause_s: int = Field(300, ge=1)


class Keep(Config):
    """How long what is over stays: workflows (seconds), and whether their record and logs are archived."""

    success_s: int = Field(7 * 86400, ge=0)
    failure_s: int = Field(14 * 86400, ge=0)
    pods: Literal["OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess"] = "OnPodSuccess"
    archive_logs: bool = False


class Nightly(Config):
    """When the nightly evaluation starts (cron, in `timezone`), and what it holds checkpoints against."""

    schedule: str = "0 2 * * *"
    timezone: str = "UTC"
    alias: str = Field("reference", description="of the registry: the checkpoint that new ones are compared with")
    model: str = Field("", description="registered model; default: the model line's name")
    webhook_secret: str = Field(
        "", pattern=r"^([a-z0-9.-]+/[A-Za-z0-9._-]+)?$",
        description="SECRET/KEY that holds the URL which is told of regressions",
    )
    late_s: int = Field(4 * 3600, ge=0, description="a missed start is made up for within so many seconds")
    suspend: bool = False
