"""Trackers: the interface through which steps and pipeline runs log to their spools.

Every call is one record and one `write` to a file opened for appending: a record whose call has returned is in the
page cache, so a `kill -9` the next moment loses nothing and nothing has to be held back in memory."""

import hashlib
import os
import re
import threading
import time
import uuid
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from argosy.core.store.files import read_record
from argosy.core.store.lease import Holder
from argosy.core.store.step_files import NODE
from argosy.core.tracking.spool import SPOOL, Appender, Record, append_line, encode, read_from

STATUSES = ("RUNNING", "FINISHED", "FAILED", "KILLED")
_DIGEST = re.compile(r"-([0-9a-f]{12})$")
_KEYS = {"artifact": ("path", "folder"), "model": ("name",), "model_metrics": ("checkpoint", "dataset"),
         "model_tags": ("checkpoint",)}  # the fields by which records of a kind are told apart
_BY_VALUE = ("params", "tags", "model_metrics", "model_tags")  # kinds whose values are facts of their own
_FIRST_STAYS = ("params", "model")  # as in MLflow


def checkpoint_key(checkpoint: Path, step: Path | None = None) -> str:
    """`<node-digest>/<export>` of `<store>/<name>-<digest>/checkpoints/<export>`; what ties results to a model.

    A checkpoint from elsewhere has instead of the digest its identity among what `step` (a directory) is made from,
    else a hash of where it lies: two models may have one name."""
    path = Path(checkpoint).absolute()
    owner = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    named = _DIGEST.search(owner.name)
    digest = named.group(1) if named else read_record(owner / NODE).get("digest")  # of a step run by hand
    if not digest and step:
        digest = next(iter(read_record(step / NODE).get("upstream", {}).get("checkpoint", [])), "")
    return f"{digest or 'path:' + hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]}/{path.name}"


class Ledger:
    """The content of a spool, by which a step that is started again writes nothing twice.

    The points of a metric come at increasing steps, so its last step says which of them are there.

    Attributes:
        id: of the spool, by its header.
        status: the last one.
        holder: the process that said so, where it is RUNNING.
        workflow: of Argo, that said so.
        backwards: metrics of which this process logged a point below its last one, which is not kept."""

    def __init__(self, spool: Path | None) -> None:
        self.id = self.status = self.workflow = ""
        self.holder: Holder | None = None
        self.backwards: list[str] = []
        self._steps: dict[str, int] = {}
        self._own: dict[str, int] = {}
        self._facts: dict[tuple[object, ...], object] = {}
        if spool is not None and spool.is_file():
            for _, record in read_from(spool, 0):
                if record is not None:
                    self.add(record)
        self._own.clear()

    def add(self, record: Record) -> Record | None:
        """Add a record; returns it with only the values that are new, None where nothing is."""
        kind = record["kind"]
        if kind == "header":
            self.id = record.get("id", "")
        if kind == "status":
            self.status, self.workflow = record["value"], record.get("workflow", "")
            self.holder = holder_of(record)
            return record
        if kind == "metrics":
            values = self._add_points(record["step"], record["values"])
            return {**record, "values": values} if values else None
        key = (kind, *(record.get(field) for field in _KEYS.get(kind, ())))
        if kind in _BY_VALUE:
            values = {name: value for name, value in record["values"].items() if self._add((*key, name), repr(value))}
            return {**record, "values": values} if values else None
        return record if self._add(key, {name: value for name, value in record.items() if name != "time"}) else None

    def _add(self, key: tuple[object, ...], value: object) -> bool:
        if key in self._facts and (key[0] in _FIRST_STAYS or self._facts[key] == value):
            return False
        self._facts[key] = value
        return True

    def _add_points(self, step: int, values: Mapping[str, float]) -> dict[str, float]:
        steps, own = self._steps, self._own
        self.backwards = [key for key in values if own.get(key, step) > step]
        own.update(dict.fromkeys(values, step))
        fresh = {key: value for key, value in values.items() if key not in steps or steps[key] < step}
        steps.update(dict.fromkeys(fresh, step))
        return fresh


class Tracker:
    """The logger of a step. Never blocks on a server, never raises for a disk that fails.

    Args:
        directory: holds the spool (`<step>/tracking`); None: nothing is written, for what needs no tracking."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._appender = Appender(directory / SPOOL) if directory is not None else None
        self._ledger = Ledger(directory / SPOOL if directory is not None else None)
        self._time = 0

    def header(self, **fields: object) -> None:
        """Name the spool's owner (node, part, step, digest, pipeline, line) and metrics' kinds. Written on change."""
        self._write({"kind": "header", "id": self._ledger.id or uuid.uuid4().hex[:12], **fields})

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Log each value at `step`. A metric that the spool holds at this step or a later one is not written."""
        self._write({"kind": "metrics", "step": int(step), "values": self._numbers(values)})
        for key in self._ledger.backwards:
            self._warn(f"metric {key!r} goes back to step {step}: not logged; the steps of a metric go forward")

    def params(self, values: Mapping[str, object]) -> None:
        """Log params (flattened config values). The first value of a param stays, as in MLflow."""
        self._write({"kind": "params", "values": {key: str(value) for key, value in values.items()}})

    def tags(self, values: Mapping[str, str]) -> None:
        """Set tags of the stage's run; a tag may change."""
        self._write({"kind": "tags", "values": {key: str(value) for key, value in values.items()}})

    def artifact(self, path: Path, folder: str = "") -> None:
        """Log a small file below `<out>` as an artifact of the stage's run; written again when its bytes change."""
        self._write({"kind": "artifact", "path": self._relative(path), "folder": folder, "digest": _digest_of(path)})

    def model(self, name: str, path: Path, *, stage: str, step: int, tokens: int,
              tags: Mapping[str, str] | None = None) -> None:
        """Register an exported checkpoint (a directory below `<out>`) as an external LoggedModel.

        `name`: the export's name, unique in this step. `tokens`: tokens seen since the first step of pretraining."""
        self._write({
            "kind": "model", "name": name, "path": self._relative(path), "checkpoint": checkpoint_key(path),
            "stage": stage, "step": int(step), "tokens": int(tokens),
            "values": {key: str(value) for key, value in (tags or {}).items()}})  # fmt: skip

    def model_metrics(self, checkpoint: Path, values: Mapping[str, float], *, tokens: int, dataset: str = "",
                      dataset_digest: str = "", branch: str = "", base: tuple[Path, int] | None = None) -> None:
        """Log evaluation results against the LoggedModel of `checkpoint` and its dataset, and on the model
        line's curve run at step = tokens. A value is written again when it has changed.

        Args:
            tokens: tokens the checkpoint has seen.
            branch: of a stage that leaves the main line (a twin, an alternative): gets a curve run of its own,
                so that two checkpoints with as many tokens are not points of one curve.
            base: checkpoint at which the branch leaves the line, where its curve begins, and the tokens it has seen."""
        begins = {"base": self._about(*base)} if base else {}
        self._write({
            "kind": "model_metrics", **self._about(checkpoint, tokens), "dataset": dataset,
            "dataset_digest": dataset_digest, "branch": branch, **begins, "values": self._numbers(values)})  # fmt: skip

    def model_tags(self, checkpoint: Path, values: Mapping[str, str], *, tokens: int = 0, key: str = "") -> None:
        """Set tags of a checkpoint's LoggedModel; a tag may change.

        `tokens`: that the checkpoint has seen. `key`: of the checkpoint, where it is none that this step reads."""
        text = {name: str(value) for name, value in values.items()}
        about = self._about(checkpoint, tokens)
        self._write({"kind": "model_tags", **about, "checkpoint": key or about["checkpoint"], "values": text})

    def status(self, value: str, workflow: str = "") -> None:
        """Set the run's status from now on: RUNNING (of a pipeline run, by `workflow`), FINISHED, FAILED or KILLED."""
        if value not in STATUSES:
            raise ValueError(f"status is {value!r}; allowed: {', '.join(STATUSES)}")
        # who runs it: where nobody is left to say how it ended, the shipper can
        holder = {"holder": asdict(Holder.me())} if value == "RUNNING" else {}
        by = {"workflow": workflow} if workflow else {}
        self._write({"kind": "status", "value": value, **holder, **by})

    @property
    def last_status(self) -> str:
        """The last status that was logged, by this process or an earlier one; "" for none."""
        return self._ledger.status

    def close(self) -> None:
        """Put everything on the disk itself and let go of the file."""
        if self._appender is not None:
            self._appender.close()

    def _write(self, record: Record) -> None:
        with self._lock:
            fresh = self._ledger.add(record)
            if fresh is not None and self._appender is not None:
                # MLflow tells two results of a model apart by their times, not by their datasets
                self._time = max(int(time.time() * 1000), self._time + (record["kind"] == "model_metrics"))
                self._appender.append(encode({"time": self._time, **fresh}))

    def _about(self, checkpoint: Path, tokens: int) -> Record:
        key = checkpoint_key(checkpoint, self.directory.parent if self.directory else None)
        return {"checkpoint": key, "path": str(Path(checkpoint).absolute()), "tokens": int(tokens)}

    def _relative(self, path: Path) -> str:
        """`path` below the step's directory, or absolute when it lies elsewhere."""
        absolute = Path(path).absolute()
        out = self.directory.absolute().parent if self.directory else absolute.parent
        return absolute.relative_to(out).as_posix() if absolute.is_relative_to(out) else str(absolute)

    def _numbers(self, values: Mapping[str, float]) -> dict[str, float]:
        """The values as floats (NumPy's and torch's too); one that is no number is left out with a warning."""
        numbers = {}
        for key, value in values.items():
            try:
                numbers[key] = float(value)
            except (TypeError, ValueError) as error:
                self._warn(f"metric {key!r} is not a number but {value!r} ({error}): not logged")
        return numbers

    def _warn(self, message: str) -> None:
        if self._appender is not None:
            self._appender.warn(message)


def holder_of(status: Record) -> Holder | None:
    """Return the process that wrote a record of status RUNNING; None for others, and for those of another version."""
    try:
        return Holder(**status["holder"])
    except (KeyError, TypeError):
        return None


def end_run(directory: Path, status: str) -> None:
    """Write the final status of a run whose process is gone without a word; one that has a final status keeps it.

    It does not become the spool's writer: a process that goes on with the run at this moment may be it already."""
    spool = directory / SPOOL
    if Ledger(spool).status == "RUNNING":
        try:
            append_line(spool, encode({"time": int(time.time() * 1000), "kind": "status", "value": status}))
        except OSError as error:
            warnings.warn(f"{spool} cannot be written ({error.strerror}): its run stays RUNNING", RuntimeWarning,
                          stacklevel=2)


def _digest_of(path: Path) -> str:
    """The digest of a file's bytes; "" for a directory or an absent file."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        return ""
