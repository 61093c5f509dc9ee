"""A night on this machine, with the local runner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workflows.local import Budget, RunResult, run_plan
from workflows.nightly.night import Night
from workflows.plan import Plan, PlannedNode
from workflows.shipping import Shipping


def run_night(night: Night, budget: Budget | None = None, *, plain: bool = False) -> list[str]:
    """Evaluate and judge; returns what went wrong, a line each. A checkpoint that fails holds up no other."""
    with Shipping(night.plan, night.line, night.lifecycle) as shipping:
        result = run_plan(night.plan, budget=budget, observers=[shipping], plain=plain)
        failed = _failures(result)
        judgement = night.judgement() if not result.signal else None
        if judgement is not None and judgement.to_run:
            judged = run_judgement(night, judgement, plain=plain)
            failed += _failures(judged)
            if judged.exit_code:
                shipping.on_end(judged)
    return failed


def run_judgement(night: Night, judgement: PlannedNode, *, plain: bool = False) -> RunResult:
    """Judge what is evaluated."""
    return run_plan(Plan(store=night.store, stages=("judge",), nodes=(judgement,)), plain=plain)


def report_of(night: Night) -> Path | None:
    """The page of what was judged; None where that is not done."""
    judgement = night.judgement()
    page = Path(judgement.dir) / "report.html" if judgement is not None else None
    return page if page is not None and page.is_file() else None


def describe(nights: Sequence[Night]) -> str:
    """What would be done, for people."""
    if not any(night.pairs for night in nights):
        return "\n".join([*(f"note: {note}" for night in nights for note in night.notes), "nothing is new"])
    lines = []
    for night in nights:
        missing = night.plan.to_run
        lines.append(f"{night.line}: {len(night.pairs)} new checkpoints, {len(missing)} of {len(night.cells)} cells "
                     f"to evaluate, store {night.store}")
        against = [(pair.label, pair.reference or "nothing: the first of its kind") for pair in night.pairs]
        lines += [f"  {label} against {reference}" for label, reference in against]
        lines += [f"  evaluate {Path(node.dir).name}: {node.reason}" for node in missing]
        lines += [f"  note: {note}" for note in night.notes]
    return "\n".join(lines)


def _failures(result: RunResult) -> list[str]:
    stopped = ["stopped"] if result.signal else []
    return stopped + [f"{each.node.id}: {each.message}" for each in result.having("failed")]
