"""Going on from what another run left: its state, on other processes or by another engine, or its optimizer alone."""

import re
import shutil
from pathlib import Path
from typing import Any

from torch import Tensor

from argosy.core.config.explain import first_of
from argosy.core.errors import InputError
from argosy.core.store.files import publish, read_record, temporary_of, write_json
from argosy.core.store.provenance import differences
from argosy.core.store.step_files import NODE, STATE
from argosy.model.train.computing import EngineConfig
from argosy.model.train.config import ContinueConfig, TrainConfig
from argosy.model.train.engines.base import Engine
from argosy.model.train.engines.parts import Parts
from argosy.model.train.state import damage

_FORM = re.compile(rf"[^/]+-[0-9a-f]+/{STATE}/step-\d+")
OPTIMIZER, ABOUT = "optimizer", "optimizer.json"  # of a phase that keeps it
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


class _Carried(Parts):
    """The optimizer's tensors of another phase beside the weights of this engine, which stay as they are."""

    def __init__(self, directory: Path, engine: Engine) -> None:
        super().__init__(directory)
        self._own = dict(engine.weights_by_name())

    def __getitem__(self, name: str) -> Tensor:
        return self._own[name]().detach().clone() if name in self._own else super().__getitem__(name)


def keep_optimizer(config: TrainConfig, engine: Engine, out: Path) -> None:
    """Write what the optimizer ended with below the step's directory `out`, for the phase that carries it on: whole
    tensors by name, as in a state, without the weights. Every process calls it."""
    target = out / OPTIMIZER
    temporary = engine.group.agreed(temporary_of(target))
    if engine.group.rank == 0:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    engine.group.barrier()
    engine.save(temporary, weights=False)
    engine.group.barrier()
    if engine.group.rank == 0:
        write_json(temporary / ABOUT, {"optimizer": config.optimizer, "step": config.steps})
        publish(temporary, target)
    engine.group.barrier()


def carry_optimizer(config: ContinueConfig, engine: Engine) -> None:
    """Go on with the moments that the phase before kept, whatever engine and processes it had.

    Raises InputError: it kept none, or those of another optimizer."""
    kept = Path(config.checkpoint) / OPTIMIZER
    about = read_record(kept / ABOUT)
    if not about:
        raise InputError(f"carry_optimizer=true: {config.checkpoint} kept no optimizer; set keep_optimizer=true of "
                         "that phase, which then runs again, or carry_optimizer=false")
    if about["optimizer"] != config.optimizer:
        raise InputError(f"carry_optimizer=true: optimizer={config.optimizer} cannot go on with what "
                         f"{about['optimizer']} kept in {config.checkpoint}: set optimizer={about['optimizer']}, or "
                         "carry_optimizer=false")
    engine.restore(_Carried(kept, engine))
    print(f"the optimizer goes on from step {about['step']} of {config.checkpoint}", flush=True)
