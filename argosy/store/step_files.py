"""Records below a step's directory: their names, and readers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from argosy.errors import InputError
from argosy.store.files import read_json, read_record

OUTPUTS = "outputs.json"  # done
NODE = "node.json"  # what it is made from, from the first moment on
RUN = "run.json"  # attempts, times, host: what differs between two runs of the same config
ERROR = "error.json"  # the last failure, until it succeeds
LOG = "log.txt"
PROGRESS = "progress.json"
TRACKING = "tracking"
STATE = "state"  # what an interrupted step goes on from, if it keeps any; removed once it is done
RANK_LOGS = "log-rank*.txt"  # of a step of several processes, beside LOG


def rank_log(rank: int) -> str:
    """Return the name of a rank's log."""
    return RANK_LOGS.replace("*", str(rank))


def read_done(directory: str | Path) -> dict[str, Any] | None:
    """Return the content of `outputs.json` if the step is done, else None.

    A file that is not whole counts as not done, with a warning: the step runs again.
    """
    path = f"{directory}/{OUTPUTS}"
    record = read_record(path)
    if isinstance(record.get("outputs"), dict) and isinstance(record.get("made_from"), dict):
        return record
    if Path(path).exists():
        warnings.warn(f"{path} is broken (truncated or not ours): taken as not done", stacklevel=2)
    return None


def ended(directory: Path) -> float:
    """Return when a finished step ended, in seconds since the epoch: by its run.json, else by its outputs' time."""
    found = read_record(directory / RUN).get("ended")
    return float(found) if isinstance(found, int | float) else (directory / OUTPUTS).stat().st_mtime


def read_outputs(directory: str | Path, field: str = "") -> dict[str, Any]:
    """Return the `outputs` of a finished step's directory, the value of the config's `field`.

    Raises:
        InputError: the directory has no readable outputs.json.
    """
    path = Path(directory) / OUTPUTS
    if not path.exists():
        where = f"{field}: {directory}" if field else str(directory)
        raise InputError(f"{where} is not the directory of a finished step: there is no {path}")
    outputs: dict[str, Any] = read_json(path)["outputs"]
    return outputs


def given_directory(field: str, directory: str, step: str) -> Path:
    """Return `directory`, the value of a config's upstream `field`, which cannot do without.

    Raises:
        InputError: it is empty, as in a step that is run by hand with too little; says that a `step` step is wanted.
    """
    if not directory:
        raise InputError(f"{field} is empty: give the directory of a finished {step} step, such as "
                         f'--config \'{{"{field}": "DIR"}}\'')
    return Path(directory)
