"""Going on from the state of another run, which was computed on other processes or by another engine."""

import re
from pathlib import Path
from typing import Any

from argosy.config.explain import first_of
from argosy.errors import InputError
from argosy.store.files import read_record
from argosy.store.provenance import differences
from argosy.store.step_files import NODE, STATE
from argosy.training.computing import EngineConfig
from argosy.training.state import damage

_FORM = re.compile(rf"[^/]+-[0-9a-f]+/{STATE}/step-\d+")
COMPUTED = {*EngineConfig.model_fields, "threads", "micro_batch_size"}  # say how, not what


def state_of_another(config: EngineConfig, out: Path) -> Path | None:
    """Return the directory that `config.resume` names in the store of the step's directory `out`; None: it names none.

    Raises InputError: it is not there, is damaged, or its run trains something else."""
    if not config.resume:
        return None
    if not _FORM.fullmatch(config.resume):
        raise InputError(f"resume={config.resume} is no state; it is STAGE-DIGEST/{STATE}/step-N of the same store")
    path = out.parent / config.resume
    if problem := damage(path):
        raise InputError(f"resume={config.resume}: {problem}; a state is deleted when two newer ones are there, or "
                         "when its step is done")
    other, own = (_what(read_record(each / NODE)) for each in (path.parent.parent, out))
    if differing := differences(other, own):
        raise InputError(f"resume={config.resume} trains something else ({first_of(differing, 3)}): a state goes on "
                         "with the same data and training alone")
    return path


def _what(made_from: dict[str, Any]) -> dict[str, Any]:
    """Return the record without the fields that say how it is computed."""
    kept = {name: value for name, value in made_from.get("config", {}).items() if name not in COMPUTED}
    return {**made_from, "config": kept}
