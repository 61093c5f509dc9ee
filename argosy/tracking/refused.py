"""What MLflow does not accept: kept beside the spool with the reason."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

REFUSED = "refused.jsonl"


class Refused:
    """Adds to `refused.jsonl` beside a spool; the spool itself keeps the record too."""

    def __init__(self, spool: Path) -> None:
        self._path = spool.with_name(REFUSED)

    def note(self, reason: str, item: dict[str, Any]) -> None:
        """Keep an item that was not accepted, and say so the first time."""
        if not self._path.exists():
            print(f"tracking: {self._path} keeps what MLflow does not accept, first: {reason}", file=sys.stderr)
        line = json.dumps({"reason": reason, "item": item}, default=str, ensure_ascii=False) + "\n"
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(line)
