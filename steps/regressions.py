"""Judge new checkpoints against a reference: which are worse beyond noise. The last step of the nightly evaluation.

    python -m steps.regressions --out DIR --config '{"evaluations": ["A", "B"],
        "pairs": [{"new": [0], "reference": [1]}]}'

Writes `report.html` (one file), logs to MLflow and marks the checkpoints' models there. It fails for no regression:
who started it reads `outputs.json` and says so. See docs/evaluation.md."""

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from argosy.core.config.schema import Config, Upstreams
from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.files import read_record, write_atomic
from argosy.core.store.step_files import RUN
from argosy.evidence.gate.config import Gate

if TYPE_CHECKING:
    from argosy.evidence.compare.checkpoints import Checkpoint
    from argosy.evidence.report.nightly import Judged

REPORT = "report.html"


class Pair(Config):
    """A new checkpoint's evaluations and those of its reference, as positions in `evaluations`."""

    new: tuple[int, ...] = Field(min_length=1)
    """the new checkpoint's"""
    reference: tuple[int, ...] = ()
    """empty: there is nothing to compare it with"""
    earlier: tuple[tuple[int, ...], ...] = ()
    """earlier checkpoints of its run, whose trend it is held against"""
    mixture: dict[str, float] = Field({})
    """weights of the channels that the run reads"""


class RegressionsConfig(Config):
    """Config of the step: evaluations to judge, and the rules."""

    evaluations: Upstreams = ()
    """directories of evaluate steps"""
    pairs: tuple[Pair, ...] = ()
    """Evaluations of each checkpoint and of its reference."""
    gate: Gate | None = None
    """rules that decide what is worse (docs/gate.md); null: headlines"""


class RegressionsOutputs(Config):
    """judged: a record for each new checkpoint (key, label, reference, verdict, regressions, numbers)."""

    report: str
    regressions: int
    judged: tuple[dict[str, Any], ...]


def run(config: RegressionsConfig, context: StepContext) -> RegressionsOutputs:
    """Compare, write the report, log. Raises InputError: there is nothing to judge, or a position that `evaluations`
    does not have."""
    from argosy.evidence.compare.trend import drops, seen_data, untested
    from argosy.evidence.report.nightly import judge, record_night, render_night

    if not config.pairs:
        raise InputError("there is nothing to judge: give pairs, such as --config '{\"pairs\": [{\"new\": [0]}]}'")
    named = (n for pair in config.pairs for n in (*pair.new, *pair.reference, *chain.from_iterable(pair.earlier)))
    for position in named:
        if not 0 <= position < len(config.evaluations):
            raise InputError(f"pairs has the position {position}, allowed: 0 to {len(config.evaluations) - 1}")
    found = judge([(_one(config, pair.new), _one(config, pair.reference) if pair.reference else None)
                   for pair in config.pairs])
    earlier = [[_one(config, those) for those in pair.earlier] for pair in config.pairs]
    found = [replace(each, drops=drops(before, each.new), untested=untested(before, each.new),
                     data=seen_data(each.new.stage, pair.mixture))
             for each, before, pair in zip(found, earlier, config.pairs, strict=True)]
    if config.gate is not None:
        found = [_gated(config.gate, each) for each in found]
    write_atomic(context.out / REPORT, render_night(found, os.environ.get("ARGOSY_LINE", "")))
    records = record_night(found)
    _log(config, found, context)
    for j, record in zip(found, records, strict=True):
        against = f" (against {record['reference']})" if record["reference"] else ""
        print("; ".join([f"{record['label']}: {record['verdict']}{against}", *record["regressions"], *j.untested]))
    return RegressionsOutputs(report=REPORT, regressions=sum(bool(j.regressions) for j in found), judged=tuple(records))


def _one(config: RegressionsConfig, positions: Sequence[int]) -> "Checkpoint":
    from argosy.evidence.compare.checkpoints import read_checkpoints

    found = read_checkpoints((), [config.evaluations[n] for n in positions])
    if len(found.every) != 1:
        raise InputError(f"pairs: {list(positions)} are evaluations of {len(found.every)} checkpoints, allowed: of one "
                         + "; ".join(found.notes))
    [checkpoint] = found.every
    checkpoint.label = f"{checkpoint.stage}/{checkpoint.name} ({checkpoint.digest.removeprefix('directory:')[:6]})"
    return checkpoint


def _gated(gate: Gate, judged: "Judged") -> "Judged":
    from argosy.evidence.gate.check import check
    from argosy.evidence.gate.subject import subject_of

    reference = subject_of(judged.reference) if judged.reference else None
    return replace(judged, gate=check(gate, subject_of(judged.new), reference))


def _log(config: RegressionsConfig, found: "Sequence[Judged]", context: StepContext) -> None:
    from argosy.evidence.compare.changes import task_of
    from argosy.evidence.compare.checkpoints import HELDOUT

    counts = {"judged": len(found), "worse": sum(j.verdict == "worse" for j in found),
              "better": sum(j.verdict == "better" for j in found)}  # fmt: skip
    context.tracker.metrics({f"nightly/{name}": float(count) for name, count in counts.items()})
    for j, pair in zip(found, config.pairs, strict=True):
        name = f"nightly/{j.new.stage}-{j.new.name}-{j.new.digest.removeprefix('directory:')[:6]}"
        context.tracker.metrics({f"{name}/{task_of(c)[0]}/difference": c.difference.value for c in j.headlines})
        context.tracker.metrics({f"{name}/heldout/{t.name.removeprefix(HELDOUT)}/difference": t.difference.value
                                 for t in j.texts})
        path = _checkpoint(Path(config.evaluations[pair.new[0]]))
        if path is not None:
            context.tracker.model_tags(path, {
                "argosy.nightly.verdict": j.verdict, "argosy.nightly.reference": j.reference.key if j.reference else "",
                "argosy.nightly.regressions": "; ".join(j.regressions),
                "argosy.nightly.report": str(context.out / REPORT),
                **({"argosy.nightly.gate": j.gate.status} if j.gate is not None else {}),
            }, tokens=j.new.tokens, key=j.new.key)  # fmt: skip
    context.tracker.artifact(context.out / REPORT)


def _checkpoint(evaluation: Path) -> Path | None:
    """The checkpoint that an evaluation was of, where it is still there."""
    from argosy.model.weights.checkpoint import find_checkpoint

    settings = read_record(evaluation / RUN).get("config", {})
    try:
        return find_checkpoint(settings.get("checkpoint") or "-", settings.get("export", "final")).path
    except InputError:
        return None


STEP = Step("regressions", RegressionsConfig, run, version=4)

if __name__ == "__main__":
    main(STEP)
