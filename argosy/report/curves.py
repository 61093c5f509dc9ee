"""Which curves a report shows: training, held-out text, and what evaluation says along the best checkpoint's line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from argosy.report.chart import Chart, Series
from argosy.report.checkpoints import Checkpoint
from argosy.report.comparison import Comparison, TaskComparison
from argosy.report.stages import Stage
from argosy.report.tables import is_group

# Of post-training, by what the metric's name ends in; in this order. Others are in MLflow.
POSTTRAINING = (("rlhf/reward", "Mean reward of the answers"), ("rlhf/kl", "KL to the start, nats a token"),
                ("train/loss", "Loss"), ("train/token_accuracy", "Right next tokens"),
                ("train/accuracy", "Pairs ranked right"), ("rlhf/length", "Length of answers, tokens"))
PROBE_MEASURES = ("acc", "mass", "bpb", "ppl", "auc")  # of a probe the first one that it has


def curves(found: Comparison, stages: Sequence[Stage]) -> list[tuple[str, list[Chart]]]:
    """Groups of charts with a heading; those that there is nothing to draw for are left out."""
    groups = [("Training", list(_pretraining(stages))), ("Over the checkpoints", list(_checkpoints(found))),
              ("After pretraining", list(_posttraining(stages)))]
    return [(title, charts) for title, charts in groups if charts]


def _pretraining(stages: Sequence[Stage]) -> Iterator[Chart]:
    for phases in _lines([s for s in stages if s.curves.get("train/tokens")]):
        name = phases[0].name if len(phases) == 1 else f"{phases[0].name} to {phases[-1].name}"
        marks = [(s.tokens_at(0) or 0.0, s.name) for s in phases]
        for prefix, title, note in (("train/loss/", "Training loss by channel", "nats a token"),
                                    ("heldout/bpb/", "Held-out text by channel", "bits a byte, lower is better")):
            series = _joined(phases, prefix)
            if series:
                yield Chart(f"{title}: {name}", note, "tokens", series, marks)


def _lines(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Each phase that nothing continues, with those before it."""
    known = {s.digest: s for s in stages}
    before = {s.digest: next(iter(s.made_from["upstream"].get("checkpoint", [])), "") for s in stages}
    found = []
    for last in (s for s in stages if s.digest not in before.values()):
        line = [last]
        while before[line[0].digest] in known:
            line.insert(0, known[before[line[0].digest]])
        found.append(line)
    return found


def _joined(phases: Sequence[Stage], prefix: str) -> list[Series]:
    names = sorted({name for s in phases for name in s.curves if name.startswith(prefix)})
    found = []
    for name in names:
        points = [(x, value) for s in phases for step, value in s.curves.get(name, ())
                  if (x := s.tokens_at(step)) is not None]
        found.append(Series(name.removeprefix(prefix), points))
    return found


def _checkpoints(found: Comparison) -> Iterator[Chart]:
    main = _main_line(found)
    names = {float(c.tokens): c.label for c in main}
    marks = [(float(c.tokens), c.label) for c in main if c.final]
    for task in found.tasks:
        series = [_over(main, form, f"bench/{task.task}/{form}/acc") for form in _forms(main, task)]
        series = [s for s in series if len(s.points) > 1]
        if series:
            chance = _chance(main, task.task)
            yield Chart(f"Accuracy on {task.task} by form", "share right", "tokens", series, marks,
                        (chance, "chance") if chance else None, "%", names)
    yield from _probes(main, names, marks)


def _over(main: Sequence[Checkpoint], name: str, metric: str) -> Series:
    return Series(name, [(c.tokens, c.metrics[metric]) for c in main if metric in c.metrics])


def _forms(main: Sequence[Checkpoint], task: TaskComparison) -> list[str]:
    return sorted({form for c in main for form in c.variants(task.task)}, key=lambda form: (form != "plain", form))


def _main_line(found: Comparison) -> list[Checkpoint]:
    """Evaluated checkpoints up to the best one, or to the last one where no benchmark ranks them."""
    evaluated = found.checkpoints.evaluated
    if not evaluated:
        return []
    best = next((task.best for task in found.tasks if task.best), evaluated[-1].key)
    return [c for c in found.checkpoints.line(found.checkpoints[best]) if c.metrics]


def _chance(main: Sequence[Checkpoint], task: str) -> float | None:
    return next((c.answers[task, v].chance for c in main for v in c.variants(task)), None)


def _probes(main: Sequence[Checkpoint], names: dict[float, str], marks: list[tuple[float, str]]) -> Iterator[Chart]:
    chosen: dict[str, list[tuple[str, str]]] = {}
    probes = sorted({name.rpartition("/")[0] for c in main for name in c.metrics
                     if name.startswith("probe/") and not is_group(name)})
    for probe in probes:
        for measure in PROBE_MEASURES:
            if any(f"{probe}/{measure}" in c.metrics for c in main):
                chosen.setdefault(measure, []).append((probe, f"{probe}/{measure}"))
                break
    for measure, metrics in chosen.items():
        series = [_over(main, probe.rpartition("/")[2], name) for probe, name in metrics]
        series = [s for s in series if len(s.points) > 1]
        if series:
            unit = "%" if measure in ("acc", "mass") else ""
            yield Chart(f"Probes: {_MEASURES[measure]}", "not asked, but measured", "tokens", series, marks, None, unit,
                        names)


_MEASURES = {"acc": "right statement preferred", "mass": "probability of the expected beginning",
             "bpb": "bits a byte", "ppl": "perplexity", "auc": "harmful told from harmless (0.5: not at all)"}


def _posttraining(stages: Sequence[Stage]) -> Iterator[Chart]:
    after = [s for s in stages if s.outputs.get("exports") and not s.curves.get("train/tokens")]
    for step in dict.fromkeys(s.made_from["step"] for s in after):
        same = [s for s in after if s.made_from["step"] == step]
        for metric, title in POSTTRAINING:
            series = [Series(s.name, [(float(x), y) for x, y in s.curves[metric]]) for s in same if metric in s.curves]
            series = [s for s in series if len(s.points) > 1]
            if series and not (metric == "train/loss" and step == "rlhf"):
                yield Chart(f"{step}: {title}", "over optimiser steps", "steps", series,
                            unit="%" if "accuracy" in metric else "")
