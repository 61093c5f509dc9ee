"""The evidence of promotions: a JSON file in the store for each one that was made, refused or undone."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.gate.render import as_json
from argosy.storage import make_directory, write_json

if TYPE_CHECKING:
    from argosy.gate.check import Verdict

FOLDER = ".promotions"


@dataclass(frozen=True)
class Evidence:
    """kind: `promote` or `undo`; checkpoint: what the alias is to name, before: what it named ("" for nothing)."""

    kind: str
    alias: str
    model: str
    by: str
    at: str
    checkpoint: str
    before: str
    comparison: str = ""
    workflow: str = ""
    force: str = ""
    verdict: Verdict | None = None

    def record(self, outcome: str) -> dict[str, Any]:
        """As JSON; `gate` is null where there is none."""
        plain = {name: getattr(self, name) for name in ("kind", "alias", "model", "by", "at", "checkpoint", "before",
                                                        "comparison", "workflow", "force")}
        return {**plain, "outcome": outcome, "gate": as_json(self.verdict) if self.verdict else None}


def keep(store: Path, evidence: Evidence, outcome: str, path: Path | None = None) -> Path:
    """Write `<store>/.promotions/<time>-<kind>-<model>-<alias>-<checkpoint>.json`; no other evidence is replaced.

    Args:
        outcome: `begun` (before the alias is moved, so that no crash loses the evidence), `moved`, or `refused`.
        path: where this evidence was written before.
    """
    path = path or _free(make_directory(store / FOLDER), evidence)
    write_json(path, evidence.record(outcome))
    return path


def _free(folder: Path, evidence: Evidence) -> Path:
    """A new file: two promotions may be of one second."""
    parts = (evidence.at, evidence.kind, evidence.model, evidence.alias, evidence.checkpoint or "nothing")
    name = re.sub(r"[^A-Za-z0-9._@-]+", "_", "-".join(parts))
    number = 1
    while True:
        path = folder / (f"{name}.json" if number == 1 else f"{name}-{number}.json")
        with contextlib.suppress(FileExistsError):
            path.touch(exist_ok=False)
            return path
        number += 1
