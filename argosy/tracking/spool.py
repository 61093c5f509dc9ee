"""The spool: an append-only JSONL file of what a step logs; exactly once over crashes and resumes.

Every call is one record and one `write` to a file opened for appending: what a call returned from is in the
page cache, so a `kill -9` the next moment loses nothing and nothing has to be held back in memory.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from argosy.holder import Holder
from argosy.tracking.append import Appender
from argosy.tracking.known import Known
from argosy.tracking.records import SPOOL, Record, encode

STATUSES = ("RUNNING", "FINISHED", "FAILED", "KILLED")
_DIGEST = re.compile(r"-([0-9a-f]{12})$")


def checkpoint_key(checkpoint: Path) -> str:
    """`<node-digest>/<export>` of `<store>/<name>-<digest>/checkpoints/<export>`; what ties results to a model.

    A checkpoint from elsewhere has the last two names of its path instead.
    """
    path = Path(checkpoint).absolute()
    owner = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    digest = _DIGEST.search(owner.name)
    return f"{digest.group(1) if digest else owner.name}/{path.name}"


class Tracker:
    """What a step logs with. Never blocks on a server, never raises for a disk that fails.

    Args:
        directory: `<out>/tracking`; made on the first record. None logs nowhere.

    A process that is started again opens the same spool: a (metric, step), param or model that it holds already is not
    written again, whatever its new value. An artifact is once its bytes have changed, a result of a model once its
    value has: an evaluation may be tried again.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._appender = Appender(directory / SPOOL) if directory is not None else None
        self._known = Known(directory / SPOOL if directory is not None else None)

    def header(self, **fields: str) -> None:
        """Say whose spool this is: node, part, step, digest, pipeline, line. Again only when it changed."""
        self._write_changed({"kind": "header", **fields})

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Log each value at `step`. A (key, step) that the spool already holds is not written again."""
        if self._appender is None:
            return
        with self._lock:
            is_new, step = self._known.add_step, int(step)
            fresh = {key: value for key, value in self._numbers(values).items() if is_new(key, step)}
            if fresh:
                self._append({"kind": "metrics", "step": step, "values": fresh})

    def params(self, values: Mapping[str, object]) -> None:
        """Log params (flattened config values). The first value of a param stays, as in MLflow."""
        with self._lock:
            fresh = self._known.new(("params", key) for key in values)
            if fresh:
                self._append({"kind": "params", "values": {key: str(values[key]) for _, key in fresh}})

    def tags(self, values: Mapping[str, str]) -> None:
        """Set tags of the stage's run; a tag may change."""
        with self._lock:
            fresh = self._known.changed({("tags", key): str(value) for key, value in values.items()})
            if fresh:
                self._append({"kind": "tags", "values": {key: str(values[key]) for _, key in fresh}})

    def artifact(self, path: Path, folder: str = "") -> None:
        """Log a small file below `<out>` as an artifact of the stage's run."""
        name, digest = self._relative(path), _digest_of(path)
        with self._lock:
            if self._known.changed({("artifact", name, folder): digest}):
                self._append({"kind": "artifact", "path": name, "folder": folder, "digest": digest})

    def model(
        self, name: str, path: Path, *, stage: str, step: int, tokens: int, tags: Mapping[str, str] | None = None
    ) -> None:
        """Register an exported checkpoint (a directory below `<out>`) as an external LoggedModel.

        Args:
            name: the export's name, unique in this step.
            tokens: tokens seen since the first step of pretraining.
        """
        record = {
            "kind": "model", "name": name, "path": self._relative(path), "checkpoint": checkpoint_key(path),
            "stage": stage, "step": int(step), "tokens": int(tokens),
            "values": {key: str(value) for key, value in (tags or {}).items()},
        }  # fmt: skip
        with self._lock:
            if self._known.new([("model", name)]):
                self._append(record)

    def model_metrics(
        self,
        checkpoint: Path,
        values: Mapping[str, float],
        *,
        tokens: int,
        dataset: str = "",
        dataset_digest: str = "",
        branch: str = "",
    ) -> None:
        """Log evaluation results against the LoggedModel of `checkpoint` and its dataset, and on the model
        line's curve run at step = tokens.

        Args:
            tokens: tokens the checkpoint has seen.
            branch: of a stage that leaves the main line (a twin, an alternative): gets a curve run of its own,
                so that two checkpoints with as many tokens are not points of one curve.
        """
        key = checkpoint_key(checkpoint)
        record = {
            "kind": "model_metrics", "checkpoint": key, "path": str(Path(checkpoint).absolute()),
            "tokens": int(tokens), "dataset": dataset, "dataset_digest": dataset_digest, "branch": branch,
        }  # fmt: skip
        with self._lock:
            numbers = self._numbers(values)
            about = "model_metrics", key, dataset
            fresh = self._known.changed({(*about, name): repr(value) for name, value in numbers.items()})
            if fresh:
                self._append({**record, "values": {name: numbers[name] for *_, name in fresh}})

    def model_tags(self, checkpoint: Path, values: Mapping[str, str], *, tokens: int = 0) -> None:
        """Set tags of a checkpoint's LoggedModel; a tag may change. `tokens`: that the checkpoint has seen."""
        key = checkpoint_key(checkpoint)
        with self._lock:
            fresh = self._known.changed({("model_tags", key, name): str(value) for name, value in values.items()})
            if fresh:
                self._append({
                    "kind": "model_tags", "checkpoint": key, "path": str(Path(checkpoint).absolute()),
                    "tokens": int(tokens), "values": {name: str(values[name]) for *_, name in fresh},
                })  # fmt: skip

    def status(self, value: str) -> None:
        """The run's status from now on: RUNNING, FINISHED, FAILED or KILLED."""
        if value not in STATUSES:
            raise ValueError(f"status is {value!r}; allowed: {', '.join(STATUSES)}")
        # who runs it: where nobody is left to say how it ended, the shipper can
        holder = {"holder": asdict(Holder.me())} if value == "RUNNING" else {}
        with self._lock:
            self._known.changed({("status",): value})
            self._append({"kind": "status", "value": value, **holder})

    @property
    def last_status(self) -> str:
        """The last status that was logged, by this process or an earlier one; "" for none."""
        return str(self._known.get("status") or "")

    def reused(self, nodes: Sequence[str]) -> None:
        """Directories of nodes that were done when this pipeline run started."""
        if nodes:
            self._write_changed({"kind": "reused", "nodes": list(nodes)})

    def close(self) -> None:
        """Put everything on the disk itself and let go of the file."""
        if self._appender is not None:
            self._appender.close()

    def _relative(self, path: Path) -> str:
        """`path` below the step's directory, or absolute when it lies elsewhere."""
        absolute = Path(path).absolute()
        out = self.directory.absolute().parent if self.directory else absolute.parent
        return absolute.relative_to(out).as_posix() if absolute.is_relative_to(out) else str(absolute)

    def _numbers(self, values: Mapping[str, float]) -> dict[str, float]:
        """The values as floats (NumPy's and torch's too); what is none is left out with a warning."""
        try:
            return {key: float(value) for key, value in values.items()}
        except (TypeError, ValueError):
            numbers = {}
            for key, value in values.items():
                try:
                    numbers[key] = float(value)
                except (TypeError, ValueError) as error:
                    if self._appender is not None:
                        self._appender.warn(f"metric {key!r} is not a number but {value!r} ({error}): not logged")
            return numbers

    def _write_changed(self, record: Record) -> None:
        with self._lock:
            if self._known.changed({(record["kind"],): record}):
                self._append(record)

    def _append(self, record: Record) -> None:
        if self._appender is not None:
            self._appender.append(encode({"time": int(time.time() * 1000), **record}))


def _digest_of(path: Path) -> str:
    """Of a file's bytes; "" for a directory, or what is not there."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        return ""
