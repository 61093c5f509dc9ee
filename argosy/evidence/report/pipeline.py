"""The steps behind a report: what each was made from, cost and logged, whose data it was."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from argosy.core.config.explain import grouped
from argosy.core.statistics.metric import find
from argosy.core.store.files import read_record
from argosy.core.store.goodput import WORDS, Goodput, attempts_of, goodput
from argosy.core.store.provenance import flat
from argosy.core.store.step_files import RUN, read_done
from argosy.core.tracking.spool import kinds, read
from argosy.evidence.compare.checkpoints import HELDOUT
from argosy.evidence.compare.words import listed

SAMPLES = "samples.json"  # a table in the form of MLflow's
KEY_SETTINGS = ("tokens", "sequence_length", "global_batch_size", "batch_size", "learning_rate", "epochs", "method",
                "beta", "kl_coef", "rope_theta", "vocab_size", "optimizer", "schedule", "suite", "seed")


@dataclass(frozen=True)
class Stage:
    """A finished step's directory."""

    directory: Path
    made_from: Mapping[str, Any]
    outputs: Mapping[str, Any]
    run: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.made_from["node"])

    @property
    def digest(self) -> str:
        return str(self.made_from["digest"])

    @cached_property
    def curves(self) -> dict[str, list[tuple[int, float]]]:
        """Metrics that it logged: (step, value)."""
        return read(self.directory)

    @cached_property
    def measures(self) -> list[tuple[str, float, str]]:
        """Last values of the metrics that it declares, with their unit: (name, value, unit); none of a step that
        trains, whose metrics have charts."""
        trains = any(name.startswith("train/") for name in self.curves)
        declared = {} if trains else kinds(self.directory)
        found = ((name, points[-1][1], find(name, declared)) for name, points in sorted(self.curves.items()))
        return [(name, 100 * value if kind.share else value, "%" if kind.share else kind.unit)
                for name, value, kind in found if kind]

    @cached_property
    def samples(self) -> list[dict[str, Any]]:
        """Best and worst answers of the last rollout of reinforcement learning, or of self-made data; else none."""
        table = read_record(self.directory / SAMPLES)
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table.get("data", [])]
        return [row for row in rows if row["step"] == rows[-1]["step"]]

    @cached_property
    def settings(self) -> dict[str, Any]:
        return dict(flat(self.made_from["config"]))

    def tokens_at(self, step: int) -> float | None:
        """Tokens seen since pretraining began, after `step` optimiser steps; None where the step logs none."""
        known = self.curves.get("train/tokens", [])
        if not known:
            return None
        if len(known) == 1:  # a phase of one logged step: its last export has the same rate
            known = sorted({*known, *((e["step"], float(e["tokens"])) for e in self.outputs.get("exports", []))})
        (first, low), (last, high) = known[0], known[-1]
        return low if first == last else low + (step - first) * (high - low) / (last - first)


def read_stages(directories: Sequence[str | Path]) -> list[Stage]:
    """The finished ones, in the given order."""
    return [Stage(directory, done["made_from"], done["outputs"], read_record(directory / RUN))
            for directory in map(Path, directories) if (done := read_done(directory)) is not None]


def costs(stages: Sequence[Stage], out: Path) -> list[dict[str, Any]]:
    """Return the costs by node, one step or all parts of a fan-out together (then without a digest); links are relative
    to `out`, so that a store can be moved."""
    return [_cost(group, out) for group in grouped((stage.name, stage) for stage in stages).values()]


def _cost(group: Sequence[Stage], out: Path) -> dict[str, Any]:
    first, alone = group[0], len(group) == 1
    seconds, peaks = ([s.run[key] for s in group if isinstance(s.run.get(key), int | float)]
                      for key in ("seconds", "peak_rss_mb"))
    exports = [entry for s in group for entry in s.outputs.get("exports", [])]
    shared = [(key, value) for key, value in first.settings.items()
              if value not in (None, "", {}, []) and all(s.settings.get(key) == value for s in group)]
    return {
        "name": first.name, "parts": len(group), "digest": first.digest if alone else "",
        "link": os.path.relpath(first.directory, out) if alone else "", "seconds": sum(seconds) if seconds else None,
        "peak_mb": max(peaks, default=None), "attempts": sum(int(s.run.get("attempts") or 1) for s in group),
        "tokens": max((int(e["tokens"]) for e in exports), default=None),
        "megabytes": sum(_size(s.directory) for s in group) / 1e6, "settings": shared,
        "key_settings": [(key, value) for key, value in shared if key.rpartition(".")[2] in KEY_SETTINGS]}  # fmt: skip


def goodputs(stages: Sequence[Stage]) -> tuple[list[tuple[str, Goodput]], dict[str, str]]:
    """Return each stage that trains or has GPUs with its goodput, and the causes by which any of them lost time."""
    found = [(stage.name, goodput(attempts_of(stage.directory))) for stage in stages]
    return ([(name, each) for name, each in found if each.trains or each.gpu_hours],
            {cause: name for cause, name in WORDS.items() if any(cause in each.lost for _, each in found)})


def _size(directory: Path) -> int:
    """Bytes of the files below a directory; a file that vanishes meanwhile counts nothing."""
    total = 0
    for root, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:
                continue
    return total


def notes_of_leaks(stages: Sequence[Stage]) -> list[str]:
    """Sentences on held-out text that is in the training data, or that none is, or why it was not looked for; none
    where no evaluation measured any."""
    found, steps = [], {stage.made_from["step"] for stage in stages}
    metrics = (stage.outputs.get("metrics", ()) for stage in stages if stage.made_from["step"] == "evaluate")
    if "leaks" not in steps and any(name.startswith(HELDOUT) for names in metrics for name in names):
        lacking = listed([name for name in ("clean", "tokenize") if name not in steps])
        found.append(f"Held-out text was not looked for in the training data: the stage leaks needs {lacking}, which "
                     "this pipeline does not have." if lacking else
                     "Held-out text was not looked for in the training data: the stage leaks is left out.")
    for sets in (stage.outputs["sets"] for stage in stages if stage.made_from["step"] == "leaks"):
        checked = sum(count["checked"] for count in sets.values())
        leaked = {name: count for name, count in sets.items() if count["leaked"]}
        some = listed([f"{count['leaked']} of {count['checked']} of {name} ({count['whole']} at least half)"
                       for name, count in leaked.items()])
        found.append(f"Held-out documents with a passage in the training data, verbatim or edited: {some}; the stage "
                     "leaks lists them (leaks.jsonl)." if leaked else
                     f"None of {checked:,} held-out documents has a passage in the training data, verbatim or edited.")
    return found


_OF_DATA = ("benchmark", "instructions", "preferences", "prompts")


def notes_of_data(directory: str) -> list[str]:
    """A sentence on what a data step took of the built-in data although its documents are the user's own."""
    done = read_done(Path(directory)) if directory else None
    own = done["outputs"].get("own", []) if done else []
    built_in = [name for name in _OF_DATA if name not in own] if "inputs" in own else []
    return [f"The text is your own, and the built-in {listed(built_in)} say little of it: "
            f"{listed([f'data.{name}' for name in built_in])} would name your own."] if built_in else []
