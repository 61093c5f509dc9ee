"""The configs of the pipelines that a store has seen: what its checkpoints are to be evaluated with, later too."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from argosy.config import Config
from argosy.storage import make_directory, read_record, write_json
from argosy.tracking.records import PIPELINES
from workflows import last_run

if TYPE_CHECKING:
    from workflows.lifecycle import LifecycleConfig

FILE = "config.json"


def record(store: Path, pipeline: str, config: Config) -> None:
    """Note what the pipeline run `pipeline` is made of: what was set, so that a seed follows the run's seed still."""
    folder = make_directory(store / PIPELINES / pipeline)
    write_json(folder / FILE, config.model_dump(mode="json", exclude_unset=True), durable=False)


def newest_config(store: Path, line: str) -> LifecycleConfig | None:
    """The newest lifecycle config of a model line in `store`; None where there is none that this version can read."""
    from workflows.lifecycle import LifecycleConfig

    files = sorted(store.glob(f"{PIPELINES}/*/{FILE}"), key=_mtime, reverse=True)
    for found in (*map(read_record, files), read_record(store / last_run.FILE).get("config", {})):
        with contextlib.suppress(ValidationError):
            config = LifecycleConfig.model_validate(found)
            if found and config.name == line:
                return config
    return None


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
