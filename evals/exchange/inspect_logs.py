"""Eval logs of Inspect (format 2, JSON), one for each benchmark and form, which its viewer opens: `inspect view`."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from argosy import __version__
from argosy.core.store.files import json_text, make_directory, write_atomic
from argosy.corpus.text.display import letter
from argosy.evidence.report.items import Asked
from argosy.evidence.results.values import Record
from evals.exchange import OURS, Exported, Value

NAME = "inspect"


def write(found: Exported, out: Path) -> list[Path]:
    folder, paths = make_directory(out), []
    every = list(found.values())
    for task, form, rows in found.rows():
        own = [value for value in every if (value.task, value.form) == (task, form)]
        log = _log(task, form, rows, own, found)
        time = found.time.isoformat(timespec="seconds").replace(":", "-")
        path = folder / f"{time}_{task}-{form}_{log['eval']['task_id']}.json"
        write_atomic(path, json_text(log, indent=1))
        paths.append(path)
    return paths


def _log(task: str, form: str, rows: Sequence[Record], values: Sequence[Value], found: Exported) -> dict[str, Any]:
    name, time = f"{task}/{form}", found.time.isoformat(timespec="seconds")
    ids = [hashlib.sha256(f"{kind}/{found.name}/{name}/{time}".encode()).hexdigest()[:22] for kind in ("run", "task")]
    solver = "options" if any(row["scores"] for row in rows) else "generate"
    metrics = {value.metric: {"name": value.metric, "value": value.value, "params": {}} for value in values}
    for value in values:
        if value.metric == "acc" and math.isfinite(value.stderr):
            metrics["stderr"] = {"name": "stderr", "value": value.stderr, "params": {}}
    return {
        "version": 2, "status": "success",
        "eval": {"run_id": ids[0], "task_id": ids[1], "eval_id": ids[1], "created": time, "task": name,
                 "task_version": 0, "model": f"{OURS}/{found.name}", "config": {},
                 "dataset": {"name": task, "samples": len(rows), "sample_ids": [str(row["id"]) for row in rows]},
                 "packages": {OURS: __version__}},
        "plan": {"name": "plan", "steps": [{"solver": solver, "params": {}}], "config": {}},
        "results": {"total_samples": len(rows), "completed_samples": len(rows),
                    "scores": [{"name": OURS, "scorer": OURS, "params": {}, "metrics": metrics,
                                "scored_samples": len(rows), "unscored_samples": 0}]},
        "stats": {"started_at": time, "completed_at": time, "model_usage": {}},
        "samples": [_sample(row, found, (task, form, str(row["id"]))) for row in rows]}  # fmt: skip


def _sample(row: Record, found: Exported, key: tuple[str, str, str]) -> dict[str, Any]:
    """Make a sample: the answer of a scored question is the option that was chosen, named by its letter."""
    asked = found.asked.get(key) or Asked("", tuple(f"option {n + 1}" for n in range(len(row["scores"]))))
    rights = row.get("golds") or [row["gold"]]
    if row["scores"]:
        answer, target = letter(int(row["chosen"])), [letter(int(place)) for place in rights]
        text = asked.options[int(row["chosen"])]
    else:
        answer, text, target = row.get("extracted") or "", row.get("text") or "", [asked.answer]
    said = {"role": "assistant", "content": text, "source": "generate"}
    about = {"item": row.get("item"), "lang": row.get("lang"), "scores": list(row["scores"])}
    return {
        "id": str(row["id"]), "epoch": 1, "input": asked.prompt, "target": target if len(target) > 1 else target[0],
        **({"choices": list(asked.options)} if row["scores"] else {}),
        "messages": [{"role": "user", "content": asked.prompt, "source": "input"}, said],
        "output": {"model": f"{OURS}/{found.name}", "choices": [{"message": said, "stop_reason": "stop"}],
                   "completion": text},
        "scores": {OURS: {"value": "C" if row["correct"] else "I", "answer": answer}}, "metadata": about}  # fmt: skip
