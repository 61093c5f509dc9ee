"""The records below a step's directory, and how to read them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.errors import InputError
from argosy.storage import read_json, read_record

OUTPUTS = "outputs.json"  # done
NODE = "node.json"  # what it is made from, from the first moment on
RUN = "run.json"  # attempts, times, host: what differs between two runs of the same config
ERROR = "error.json"  # the last failure, until it succeeds
LOG = "log.txt"
TRACKING = "tracking"
AGAIN = "again"  # key of outputs.json
STATE = "state"  # what an interrupted step goes on from, if it keeps any; removed once it is done


def read_done(directory: str | Path) -> dict[str, Any] | None:
    """The content of `outputs.json` if the step is done, else None.

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
    """When a finished step ended, in seconds since the epoch: as its run.json has it, else when its outputs came."""
    found = read_record(directory / RUN).get("ended")
    return float(found) if isinstance(found, int | float) else (directory / OUTPUTS).stat().st_mtime


def to_do_again(record: Mapping[str, Any] | None) -> list[str]:
    """What of a finished step may go better another time (a network that was down), so that the next run tries it
    again: of its own (`again` of its outputs), or of what it was made from."""
    again = (record or {}).get(AGAIN)
    return [str(each) for each in again] if isinstance(again, list) else []


def read_outputs(directory: str | Path, field: str = "") -> dict[str, Any]:
    """The `outputs` of a finished step's directory; `field` is the config's whose value it is.

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
    """`directory`, the value of a config's upstream `field`, which cannot do without.

    Raises:
        InputError: it is empty, as in a step that is run by hand with too little; says that a `step` step is wanted.
    """
    if not directory:
        raise InputError(f"{field} is empty: give the directory of a finished {step} step, such as "
                         f'--config \'{{"{field}": "DIR"}}\'')
    return Path(directory)
