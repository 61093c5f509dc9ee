"""Which metrics of a store's evaluations are worth watching: their curves over training, by run and seed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.comparison.kinds import kind_of
from argosy.contamination.verdict import has_seen
from argosy.report.checkpoints import Checkpoint, Checkpoints
from argosy.statistics import Curve, Point, Watched, worth_watching
from argosy.statistics.watch import RATIO
from argosy.step_files import read_done


def watchlist(checkpoints: Checkpoints, training: Iterable[Path] = (), *, ratio: float = RATIO,
              metrics: Sequence[str] = ()) -> list[Watched]:
    """A verdict on each metric of the evaluated checkpoints, those to watch first (argosy.statistics.watch).

    A curve is a metric over the checkpoints of one training step. Steps that differ in their seed alone are seeds of
    one model. What guessing scores is no metric, and a checkpoint that has likely seen a benchmark says nothing of it.
    A metric of a few items, or of which neither way is better (argosy.comparison.kinds), is not worth watching.

    Args:
        training: directories of the training steps, which say what differs; without, each step is a model.
        ratio: signal over noise from which a metric is worth watching.
        metrics: the names to look at; default all.
    """
    models = dict(filter(None, map(_model, training)))
    by_run: dict[str, list[Checkpoint]] = {}
    for c in checkpoints.evaluated:
        by_run.setdefault(c.digest, []).append(c)
    names = sorted({name for c in checkpoints.evaluated for name in c.metrics
                    if not name.endswith("/chance") and (not metrics or name in metrics)})  # fmt: skip
    runs = [(models.get(digest, digest), run) for digest, run in by_run.items()]
    curves = {name: [curve for model, run in runs if (curve := _curve(name, model, run))] for name in names}
    items = {name: max(c.counts.get(name, 0) for c in checkpoints.evaluated) for name in names}
    shares = {name: n for name, n in items.items() if kind_of(name).share}
    return worth_watching(curves, _chances(checkpoints.evaluated), shares, ratio=ratio, items=items,
                          undirected=[name for name in names if not kind_of(name).better])


def _curve(name: str, model: str, run: Sequence[Checkpoint]) -> Curve | None:
    having = sorted((c for c in run if math.isfinite(c.metrics.get(name, math.nan)) and not has_seen(c.seen, name)),
                    key=lambda c: (c.tokens, c.step))  # fmt: skip
    points = tuple(Point(float(c.tokens), c.metrics[name], c.stderr.get(name, math.nan), c.label) for c in having)
    return Curve(model, points) if points else None


def _chances(checkpoints: Sequence[Checkpoint]) -> dict[str, float]:
    """Accuracy of guessing, by metric: of benchmarks whose answers are known."""
    found = {}
    for c in checkpoints:
        for (task, variant), answers in c.answers.items():
            langs = {row.lang for row in answers.rows}
            for name in (task, *(f"{task}_{lang}" for lang in langs)):
                found[f"bench/{name}/{variant}/acc"] = answers.chance
    return found


def _model(directory: Path) -> tuple[str, str] | None:
    """The step's digest, and what is the same of all of its seeds."""
    done = read_done(directory)
    if done is None:
        return None
    made: Mapping[str, Any] = done["made_from"]
    config = {name: value for name, value in made["config"].items() if name != "seed"}
    same = json.dumps([made["node"], made["step"], config, made["upstream"]], sort_keys=True)
    return str(made["digest"]), f"{made['node']}-{hashlib.sha256(same.encode()).hexdigest()[:12]}"
