"""Reads checkpoints from the directories of training steps and evaluations; what cannot be read is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from argosy.comparison.rows import Rows
from argosy.comparison.settings import measured, settings_of
from argosy.contamination.evidence import seen_of
from argosy.errors import InputError
from argosy.evaluation.results import ITEMS, has_items, scan_items
from argosy.report.answers import sorted_rows
from argosy.report.checkpoints import Checkpoint, Checkpoints
from argosy.report.forgetting import PREFIX
from argosy.step_files import read_done

BENCHMARK = "bench/"


def read_checkpoints(training: Sequence[str | Path], evaluations: Sequence[str | Path]) -> Checkpoints:
    """The exports of `training` steps' directories, with what the `evaluations` found; either may lack some."""
    found = Checkpoints()
    nodes = {}
    for directory in map(Path, training):
        done = read_done(directory)
        if done is None:
            found.notes.append(f"{directory.name} is not done: its checkpoints are not compared.")
        elif done["outputs"].get("exports"):
            nodes[str(done["made_from"]["digest"])] = done
    for digest, done in nodes.items():
        found.every += _exports(digest, done, nodes)
    by_key = {c.key: c for c in found.every}
    for directory in map(Path, evaluations):
        _add_evaluation(directory, found, by_key)
    _chain([c for c in found.every if c.digest not in nodes])
    _label(found.every)
    for c in found.every:
        if c.final and not c.metrics:
            found.notes.append(f"{c.label} has no evaluation, so it is in no table.")
    return found


def _exports(digest: str, done: dict[str, Any], nodes: dict[str, Any]) -> list[Checkpoint]:
    source = next(iter(done["made_from"]["upstream"].get("checkpoint", [])), "")
    base = f"{source}/{_final_name(nodes[source]['outputs'])}" if source in nodes else None
    last = _final_name(done["outputs"])
    found: list[Checkpoint] = []
    for entry in sorted(done["outputs"]["exports"], key=lambda e: e["step"]):
        parent = found[-1].key if found else base
        found.append(Checkpoint(f"{digest}/{entry['name']}", digest, str(done["made_from"]["node"]), entry["name"],
                                entry["step"], entry["tokens"], entry["name"] == last, parent=parent, base=base))
    return found


def _final_name(outputs: dict[str, Any]) -> str:
    exports = outputs["exports"]
    return str(next((e["name"] for e in exports if e["path"] == outputs.get("final")), exports[-1]["name"]))


def _add_evaluation(directory: Path, found: Checkpoints, by_key: dict[str, Checkpoint]) -> None:
    done = read_done(directory)
    if done is None:
        found.notes.append(f"The evaluation {directory.name} is not done: what it would say is missing here.")
        return
    outputs, about = done["outputs"], done["outputs"]["checkpoint"]
    digest = str(next(iter(done["made_from"]["upstream"].get("checkpoint", [])), about["name"]))
    key = f"{digest}/{about['name']}"
    if key not in by_key:
        by_key[key] = Checkpoint(key, digest, about["stage"] or about["name"], about["name"], about["step"],
                                 about["tokens"])
        found.every.append(by_key[key])
    c = by_key[key]
    c.chat = bool(about.get("chat"))
    c.evaluations.append(directory)
    c.metrics |= outputs["metrics"]
    c.stderr |= outputs["stderr"]
    c.counts |= outputs["counts"]
    c.left_out |= outputs.get("left_out", {})
    c.headline |= outputs.get("headline", {})
    if not outputs["metrics"]:
        found.notes.append(f"The evaluation {directory.name} holds no metric.")
    _add_items(directory, done, c, found)


def _add_items(directory: Path, done: dict[str, Any], c: Checkpoint, found: Checkpoints) -> None:
    outputs = done["outputs"]
    try:
        rows, broken = scan_items(directory)
    except InputError:
        why = f"{ITEMS} is broken" if has_items(directory) else f"it has no {ITEMS}"
        if any(name.startswith((BENCHMARK, PREFIX)) for name in outputs["metrics"]):
            found.notes.append(f"{directory.name} is not compared item by item: {why}.")
        return
    items, settings = sorted_rows(rows, broken), settings_of(done["made_from"])
    if items.broken:
        found.notes.append(f"{directory.name}: {items.broken} rows of its items are broken and left out.")
    c.answers |= items.answers
    c.orders |= items.orders
    for suite, channels in items.texts.items():
        name = measured(suite, settings)
        c.texts[name] = {**c.texts.pop(name, {}), **channels}
    c.seen |= {task: seen for task, seen in seen_of(Rows(rows)).items() if seen.found or task not in c.seen}
    if not items.texts and any(name.startswith(PREFIX) for name in outputs["metrics"]):
        found.notes.append(f"{directory.name} has no loss by document: its held-out loss is not compared.")


def _chain(unknown: Sequence[Checkpoint]) -> None:
    """Exports whose training step was not given: those of one step follow each other, and the last one is final."""
    for digest in dict.fromkeys(c.digest for c in unknown):
        same = sorted((c for c in unknown if c.digest == digest), key=lambda c: c.step)
        for before, after in pairwise(same):
            before.final, after.parent = False, before.key


def _label(checkpoints: Sequence[Checkpoint]) -> None:
    for c in checkpoints:
        c.label = c.stage if c.final else f"{c.stage}/{c.name}"
    twice = {label for label, n in Counter(c.label for c in checkpoints).items() if n > 1}
    for c in checkpoints:
        if c.label in twice:
            c.label = f"{c.label} ({c.digest.removeprefix('directory:')[:6]})"
