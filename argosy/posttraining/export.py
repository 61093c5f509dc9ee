"""What a post-training step leaves behind: one export, registered, and no resumable state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from argosy.config import Config
from argosy.posttraining.finite import check_heldout
from argosy.posttraining.records import Rejects
from argosy.posttraining.source import Source
from argosy.step import StepContext
from argosy.training.config import Export
from argosy.training.export import Exporter

NAME = "final"


class PosttrainingOutputs(Config):
    """Outputs of every post-training step.

    Attributes:
        metrics: held-out results as `<name>/before` and `<name>/after`.
        rejected: records that were set aside, by reason (they are in `rejects/`).
    """

    exports: list[Export]
    final: str
    metrics: dict[str, float] = Field(default_factory=dict)
    rejected: dict[str, int] = Field(default_factory=dict)


def finish(
    context: StepContext,
    stage: str,
    model: Any,
    source: Source,
    trained: tuple[int, int],
    before: Mapping[str, float],
    after: Mapping[str, float],
    rejects: Rejects,
) -> PosttrainingOutputs:
    """Log what was measured after training, export the model.

    Args:
        trained: (optimiser steps, tokens) of this stage; the export counts the tokens on top of the source's.

    Raises:
        StepError: a result is not a finite number.
    """
    step, tokens = trained
    check_heldout(before, after, step)
    context.tracker.metrics(after, step=step)
    exporter = Exporter(context, stage, source.tokenizer, source.tokens, chat=True)
    exporter.write(NAME, model.eval(), step, tokens)
    export = exporter.describe(NAME, step, tokens)
    metrics = {f"{name}/before": value for name, value in before.items()}
    metrics |= {f"{name}/after": value for name, value in after.items()}
    return PosttrainingOutputs(exports=[export], final=export.path, metrics=metrics, rejected=rejects.counts())
