"""Files of the store: read with clear errors, write atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from argosy.errors import InputError


def read_json(path: Path) -> Any:
    """Parse a JSON file.

    Raises:
        InputError: it is absent or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}") from None


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write so that a reader, or a crash at any moment, sees the old bytes or the new ones, never a part."""
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def write_json(path: Path, value: Any) -> None:
    """Write sorted, indented JSON atomically."""
    write_atomic(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
