"""Configuration and environment of DeepSpeed, memory to lock for NVMe, and the way of a state from there and back."""

import atexit
import fcntl
import os
import shutil
import warnings
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import torch

from argosy.core.errors import InputError
from argosy.core.step.machine import free_port, lockable_bytes
from argosy.model.train.config import TrainConfig
from argosy.model.train.sizing.deepspeed import AHEAD, AT_ONCE, locked


class Moments:
    """The optimizer's part of the weights, by DeepSpeed's groups of them, of which one is in memory at a time: it would
    itself read, and write, a whole group for each of its weights. `on_disk`: whether they are on NVMe at all."""

    def __init__(self, optimizer: Any, *, on_disk: bool) -> None:
        self._optimizer, self._on_disk, self._shown = optimizer, on_disk, -1

    def show(self, weight: Any) -> None:
        """Have the group of a weight in memory; None: no group."""
        if self._on_disk:
            known = weight is not None
            self.show_group(self._optimizer.grad_position[self._optimizer.get_param_id(weight)][0] if known else -1)

    def show_group(self, group: int) -> None:
        """Have a group in memory, and the last one on NVMe again; -1: none."""
        optimizer = self._optimizer
        if not self._on_disk or group == self._shown:
            return
        if self._shown >= 0:
            del optimizer._swappable_optimizer_subgroup
            optimizer._optimizer_states_and_gradient_swap_out(self._shown)
        self._shown = group if group >= 0 and optimizer._swappable_optimizer_subgroup(group) else -1
        if self._shown >= 0:
            optimizer._optimizer_states_and_gradient_swap_in(group)
            optimizer._swappable_optimizer_subgroup = lambda _: False


def check_locked(config: TrainConfig, largest: int, share: int) -> None:
    """Check that the buffers of NVMe can be locked in memory, where DeepSpeed would abort. `largest`, `share`: numbers
    of a process's part of the largest weight, and of all that are trained. Raises InputError: they cannot."""
    if not config.zero.nvme_path:
        return
    needed, may = locked(largest, share, weights=config.zero.offload == "all"), lockable_bytes()
    if needed > may:
        raise InputError(f"engine.nvme_path={config.zero.nvme_path} locks {needed / 1e6:,.0f} MB of memory for its "
                         f"buffers, and this process may lock {may / 1e6:,.1f} MB: raise that (ulimit -l; docker run "
                         "--ulimit memlock=-1; on a cluster LimitMEMLOCK=infinity of the nodes' containerd), or leave "
                         "nvme_path out, for the machine's memory")


def own_folder(path: str) -> str:
    """Make a folder below `path` for one engine of this process, as DeepSpeed's names are the same in each run; it goes
    with the process, or, where that was killed, with the next one here. "" of "". Raises InputError: it cannot."""
    if not path:
        return ""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
        for each in Path(path).glob("argosy-*.lock"):
            with suppress(OSError), each.open() as file:  # of a process that lives, or of somebody else
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(each.with_suffix(""), ignore_errors=True)
                each.unlink()
        held, lock = mkstemp(".lock", "argosy-", path)
        fcntl.flock(held, fcntl.LOCK_EX)
        own = lock.removesuffix(".lock")
        os.mkdir(own)
    except OSError as error:
        raise InputError(f"engine.nvme_path={path} cannot be used: {error.strerror}; name a folder on a fast disk of "
                         "this machine that this process may write") from None
    atexit.register(os.unlink, lock)
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def settings(config: TrainConfig, world: int, largest: int, folder: str) -> dict[str, Any]:
    """Return DeepSpeed's configuration for a phase of `world` processes; `largest`: numbers of a process's part of the
    largest weight; `folder`: on NVMe, or ""."""
    given = config.zero
    zero: dict[str, Any] = {"stage": given.stage}
    if given.offload != "none":
        place: dict[str, Any] = {"device": "nvme" if folder else "cpu", "nvme_path": folder or None,
                                 "pin_memory": torch.accelerator.is_available()}
        zero["offload_optimizer"] = {**place, "buffer_count": AT_ONCE}
        if given.offload == "all":
            zero["offload_param"] = {**place, "buffer_size": largest, "buffer_count": AHEAD}
            zero |= {"stage3_max_reuse_distance": 0} if folder else {}  # a weight that waits would keep a buffer
    if given.partition > 1:
        zero["zero_hpz_partition_size"] = given.partition
    if given.quantized_communication:
        zero |= {"zero_quantized_weights": True, "zero_quantized_gradients": True}
    made: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": config.micro_batch,
        "gradient_accumulation_steps": config.global_batch_size // (config.micro_batch * world),
        "zero_optimization": zero, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**12}
    if config.zero.stage:
        made["gradient_clipping"] = config.max_grad_norm
    if given.param_dtype == "bfloat16":
        made |= {"bf16": {"enabled": True, "check_grad_overflow": False},
                 "data_types": {"grad_accum_dtype": "fp32"}, "communication_data_type": "fp32"}
    return made


def prepare_environment(on_gpu: bool) -> None:
    """Set what DeepSpeed reads when it is imported: the accelerator, and the rendezvous of a lone process."""
    warnings.filterwarnings("ignore", "`torch.distributed.* is deprecated", FutureWarning)  # its own calls
    if not on_gpu:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    if "WORLD_SIZE" not in os.environ:
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(free_port()))
