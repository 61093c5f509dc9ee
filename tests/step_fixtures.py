"""One step run in this process, without a graph, and the files that one reads."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from argosy.core.config.schema import Config
from argosy.core.step.contract import Progress, Step, StepContext
from argosy.core.tracking.tracker import Tracker


def run_step(step: Step[Any], config: Config, out: Path) -> dict[str, Any]:
    """Outputs of the step, run in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    return dict(step.run(config, StepContext(out, Tracker(out / "tracking"), Progress(None))).model_dump())


def write_lines(path: Path, records: Iterable[Any]) -> Path:
    """One JSON value a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path
