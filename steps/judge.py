"""Judge new checkpoints against a reference: which are worse beyond noise. The last step of the nightly evaluation.

    python -m steps.judge --config '{"evaluations": ["A", "B"], "pairs": [{"new": [0], "reference": [1]}]}' --out DIR

Writes `report.html` (one file), logs to MLflow and marks the checkpoints' models there. It fails for no regression:
who started it reads `outputs.json` and says so. See docs/evaluation.md.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from argosy.config import Config, Upstreams
from argosy.errors import InputError
from argosy.gate.config import Gate
from argosy.step import Step, StepContext
from argosy.step_files import RUN
from argosy.storage import read_record, write_atomic

if TYPE_CHECKING:
    from argosy.report.checkpoints import Checkpoint
    from argosy.report.regressions import Judged

REPORT = "report.html"


class Pair(Config):
    """A new checkpoint's evaluations and those of its reference, as positions in `evaluations`."""

    new: tuple[int, ...] = Field(min_length=1)
    reference: tuple[int, ...] = Field((), description="empty: there is nothing to compare it with")


class JudgeConfig(Config):
    """What is judged."""

    evaluations: Upstreams = Field((), description="directories of evaluate steps")
    pairs: tuple[Pair, ...] = Field((), description="which of them belong to which checkpoint")
    gate: Gate | None = Field(None, description="rules that decide what is worse (docs/gate.md); null: headlines")


class JudgeOutputs(Config):
    """judged: a record for each new checkpoint (key, label, reference, verdict, regressions, numbers)."""

    report: str
    regressions: int
    judged: tuple[dict[str, Any], ...]


def run(config: JudgeConfig, context: StepContext) -> JudgeOutputs:
    """Compare, write the report, log.

    Raises:
        InputError: there is nothing to judge, or a position that `evaluations` does not have.
    """
    from argosy.report.nightly import record_night, render_night
    from argosy.report.regressions import judge

    _check(config)
    found = judge([(_one(config, pair.new), _one(config, pair.reference) if pair.reference else None)
                   for pair in config.pairs])
    if config.gate is not None:
        found = [_gated(config.gate, each) for each in found]
    write_atomic(context.out / REPORT, render_night(found, os.environ.get("ARGOSY_LINE", "")))
    records = record_night(found)
    _log(config, found, context)
    for record in records:
        against = f" (against {record['reference']})" if record["reference"] else ""
        print(f"{record['label']}: {record['verdict']}{against}{''.join(f'; {r}' for r in record['regressions'])}")
    return JudgeOutputs(report=REPORT, regressions=sum(bool(j.regressions) for j in found), judged=tuple(records))


def _check(config: JudgeConfig) -> None:
    if not config.pairs:
        raise InputError("judge has nothing to judge: give pairs, such as --config '{\"pairs\": [{\"new\": [0]}]}'")
    for position in (n for pair in config.pairs for n in (*pair.new, *pair.reference)):
        if not 0 <= position < len(config.evaluations):
            raise InputError(f"pairs has the position {position}, allowed: 0 to {len(config.evaluations) - 1}")


def _one(config: JudgeConfig, positions: Sequence[int]) -> Checkpoint:
    """The checkpoint that these evaluations are of."""
    from argosy.report.load import read_checkpoints

    found = read_checkpoints((), [config.evaluations[n] for n in positions])
    if len(found.every) != 1:
        raise InputError(f"pairs: {list(positions)} are evaluations of {len(found.every)} checkpoints, allowed: of one "
                         + "; ".join(found.notes))
    [checkpoint] = found.every
    checkpoint.label = f"{checkpoint.stage}/{checkpoint.name} ({checkpoint.digest.removeprefix('directory:')[:6]})"
    return checkpoint


def _gated(gate: Gate, judged: Judged) -> Judged:
    """With what the gate says of it."""
    from argosy.gate.check import check
    from argosy.gate.subject import subject_of

    reference = subject_of(judged.reference) if judged.reference else None
    return replace(judged, gate=check(gate, subject_of(judged.new), reference))


def _log(config: JudgeConfig, found: Sequence[Judged], context: StepContext) -> None:
    """Numbers on the night's run, verdicts on the models."""
    counts = {"judged": len(found), "worse": sum(j.verdict == "worse" for j in found),
              "better": sum(j.verdict == "better" for j in found)}  # fmt: skip
    context.tracker.metrics({f"nightly/{name}": float(count) for name, count in counts.items()})
    for j, pair in zip(found, config.pairs, strict=True):
        name = f"nightly/{j.new.stage}-{j.new.name}-{j.new.digest.removeprefix('directory:')[:6]}"
        context.tracker.metrics({f"{name}/{c.task}/difference": c.interval.value for c in j.headlines})
        context.tracker.metrics({f"{name}/heldout/{t.channel}/difference": t.interval.value for t in j.texts})
        path = _checkpoint(Path(config.evaluations[pair.new[0]]))
        if path is not None:
            context.tracker.model_tags(path, _tags(j, context.out), tokens=j.new.tokens)
    context.tracker.artifact(context.out / REPORT)


def _tags(j: Judged, out: Path) -> dict[str, str]:
    return {"argosy.nightly.verdict": j.verdict, "argosy.nightly.reference": j.reference.key if j.reference else "",
            "argosy.nightly.regressions": "; ".join(j.regressions), "argosy.nightly.report": str(out / REPORT),
            **({"argosy.nightly.gate": j.gate.status} if j.gate is not None else {})}


def _checkpoint(evaluation: Path) -> Path | None:
    """The checkpoint that an evaluation was of, where it is still there."""
    from argosy.evaluation.checkpoint import find_checkpoint

    settings = read_record(evaluation / RUN).get("config", {})
    try:
        return find_checkpoint(settings.get("checkpoint") or "-", settings.get("export", "final")).path
    except InputError:
        return None


STEP = Step("judge", JudgeConfig, run)

if __name__ == "__main__":
    STEP.main()
