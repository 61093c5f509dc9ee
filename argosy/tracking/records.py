"""Records of a spool: one JSON object a line; how they are written, read from an offset, and turned into curves.

Kinds: header, metrics, params, tags, artifact, model, model_metrics, model_tags, reused, status. Each has `kind` and
`time` (ms since the epoch). Floats that JSON has no word for are the strings "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SPOOL = "spool.jsonl"
PIPELINES = ".pipelines"  # below the store: a directory with a spool for each pipeline run
Record = dict[str, Any]


def encode(record: Mapping[str, Any]) -> bytes:
    """One line of the spool, newline included."""
    try:
        text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # a NaN or an infinity: rare, so only then each value is looked at
        values = {key: _word(value) for key, value in record["values"].items()}
        text = json.dumps({**record, "values": values}, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _word(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def decode(line: bytes) -> Record | None:
    """The record of a line; None for one that is damaged (a disk that filled up in the middle of it)."""
    try:
        record: Record = json.loads(line)
        if record["kind"] in ("metrics", "model_metrics"):
            record["values"] = {key: float(value) for key, value in record["values"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return record


def read_from(spool: Path, offset: int, end: int | None = None) -> Iterator[tuple[int, Record | None]]:
    """Yield (offset after the line, record) of whole lines between two offsets; None for a damaged line."""
    with open(spool, "rb") as file:
        file.seek(offset)
        for line in file:
            offset += len(line)
            if not line.endswith(b"\n") or (end is not None and offset > end):
                return  # a torn line is not there yet
            yield offset, decode(line)


def read(spool: str | Path) -> dict[str, list[tuple[int, float]]]:
    """The curves of a spool without MLflow: {metric: [(step, value), ...]}, sorted by step.

    `spool` is the file, its `tracking` directory or the step's directory. Absent: no curves.
    """
    path = Path(spool)
    for candidate in (path, path / SPOOL, path / "tracking" / SPOOL):
        if candidate.is_file():
            path = candidate
            break
    else:
        return {}
    points: dict[str, dict[int, float]] = {}
    for _, record in read_from(path, 0):
        if record is not None and record["kind"] == "metrics":
            for key, value in record["values"].items():
                points.setdefault(key, {}).setdefault(record["step"], value)
    return {key: sorted(series.items()) for key, series in points.items()}
