"""Compare the points of a sweep: which setting is best beyond noise, and which one a large model takes.

    python -m steps.sweep --config '{"points": ["DIR", ...], "axes": ["pretrain.learning_rate"]}' --out DIR

Writes `report.html` (one file that needs no network) and `sweep.json` (the numbers). See docs/sizing.md."""

import os
from typing import Any

from pydantic import Field

from argosy.core.config.schema import Config, Upstreams
from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.files import write_atomic, write_json

REPORT, RECORD = "report.html", "sweep.json"


class Diverged(Config):
    """A point without a model, since its loss became no finite number."""

    name: str
    """Name of the point."""
    config: dict[str, Any]
    """All fields of its training step."""


class SweepConfig(Config):
    """Config of the step."""

    points: Upstreams = ()
    """Directories of the pretrain steps."""
    axes: tuple[str, ...] = ()
    """Fields that vary, such as `pretrain.learning_rate`."""
    diverged: tuple[Diverged, ...] = ()
    """Points that diverged."""
    channel: str = "all"
    """Held-out channel whose bits a byte are compared; `all` is the mean over channels."""
    target_parameters: float = Field(0.0, ge=0)
    """Parameters of the large model, embedding and output layer aside; 0: not given."""


class SweepOutputs(Config):
    """take: overrides for the large model, empty where the grid cannot tell; verdict: the report's sentences."""

    report: str
    record: str
    points: int
    take: dict[str, Any]
    verdict: list[str]


def run(config: SweepConfig, context: StepContext) -> SweepOutputs:
    """Compare and write both files. Raises InputError: there are no points, or none has the channel."""
    from pathlib import Path

    from argosy.evidence.report.sweep import page, record
    from argosy.evidence.sweep.advice import study
    from argosy.evidence.sweep.points import Point, Runs, check_channel, read_point

    if not config.points:
        raise InputError("points is empty, allowed: directories of finished pretrain steps" + (
            f"; all {len(config.diverged)} points diverged: lower the learning rates" if config.diverged else ""))
    points = [read_point(Path(path)) for path in config.points]
    check_channel(points, config.channel)
    points += [Point(each.name, each.config, {}) for each in config.diverged]
    found = study(Runs(points, config.axes, config.channel), config.target_parameters)
    write_json(context.out / RECORD, record(found))
    write_atomic(context.out / REPORT, page(found, os.environ.get("ARGOSY_LINE", "")))
    verdict = [sentence.text for sentence in found.sentences]
    print("\n".join(verdict))
    losses = {f"sweep/loss/{cell.cell.points[0].name}": cell.cell.mean for ranked in found.ranked.values()
              for cell in ranked[:1]}
    context.tracker.metrics(losses, step=0)
    return SweepOutputs(report=REPORT, record=RECORD, points=len(points), take=found.take, verdict=verdict)


STEP = Step("sweep", SweepConfig, run)

if __name__ == "__main__":
    main(STEP)
