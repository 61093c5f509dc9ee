"""The DeepSpeed engine: several processes, ZeRO, GPUs; and one process on a CPU without a compiler."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from argosy.training.config import TrainConfig
from argosy.training.engine import Engine
from argosy.training.model import LossModule
from argosy.training.optimizers import make_optimizer


class DeepSpeedEngine(Engine):
    """`deepspeed.initialize` around our module and our optimizer; autocast stays ours, so the arithmetic is torch's."""

    def __init__(self, model: Any, channels: int, config: TrainConfig) -> None:
        super().__init__(config)
        on_gpu = torch.cuda.is_available()
        _prepare_environment(on_gpu)
        import deepspeed

        logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
        # DeepSpeed would compile this shared-memory collective at the first use and fail without a compiler.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        deepspeed.init_distributed("nccl" if on_gpu else "gloo", auto_mpi_discovery=False, verbose=False)
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
        dtype = getattr(torch, config.dtype)
        self.module = LossModule(model.to(self.device), channels, dtype, config.z_loss, config.sequence_length)
        self._engine = deepspeed.initialize(
            model=self.module, optimizer=make_optimizer(model, config), config=self._settings(),
        )[0]

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "train_micro_batch_size_per_gpu": self.micro_batch_size,
            "gradient_accumulation_steps": self._accumulation,
            "zero_optimization": {"stage": self.config.zero_stage},
            "zero_allow_untested_optimizer": True,
            "steps_per_print": 10**12,
        }
        if self.config.zero_stage:
            settings["gradient_clipping"] = self.config.max_grad_norm
        return settings

    @property
    def _accumulation(self) -> int:
        return self.share // self.micro_batch_size

    def sum_over_processes(self, tensor: Tensor) -> Tensor:
        """The sum of `tensor` over all processes."""
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        sums: Tensor
        loss, sums = self._engine(*part)
        # DeepSpeed averages over processes and micro-batches; ours is the mean over the global batch's targets.
        self._engine.backward(loss / targets * self.world_size * self._accumulation)
        if not last:
            self._engine.step()
        return sums

    def _update(self, learning_rate: float) -> Tensor:
        for group in self._engine.optimizer.param_groups:
            group["lr"] = learning_rate
        norm = None if self.config.zero_stage else self._clip()
        self._engine.step()
        return torch.as_tensor(self._engine.get_global_grad_norm()) if norm is None else norm

    def _clip(self) -> Tensor:
        """Without ZeRO, gradients are whole after the last backward; DeepSpeed would clip but not tell the norm."""
        parameters = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        return torch.nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm, foreach=True)

    def save(self, directory: Path) -> None:
        """Write DeepSpeed's sharded checkpoint."""
        self._engine.save_checkpoint(str(directory), tag="engine")

    def load(self, directory: Path) -> None:
        """Read DeepSpeed's sharded checkpoint."""
        self._engine.load_checkpoint(str(directory), tag="engine")


def _prepare_environment(on_gpu: bool) -> None:
    """What DeepSpeed reads when it is imported: the accelerator, and the rendezvous of a lone process."""
    if not on_gpu:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    if "WORLD_SIZE" not in os.environ:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
