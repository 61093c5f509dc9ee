"""What runs the forward, the backward and the optimizer: DeepSpeed, or plain torch for one process."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from argosy.errors import InputError
from argosy.tokens.mixture import Batch
from argosy.tokens.windows import IGNORED
from argosy.training.config import TrainConfig
from argosy.training.model import LossModule


class Engine(ABC):
    """One optimizer step at a time over the process's share of a global batch.

    Attributes:
        module: the loss module, on the engine's device.
        rank, world_size: of this process.
    """

    module: LossModule
    device: torch.device
    rank: int = 0
    world_size: int = 1

    def __init__(self, config: TrainConfig) -> None:
        self.config = config

    @property
    def share(self) -> int:
        """Samples of a global batch that this process works on."""
        return self.config.global_batch_size // self.world_size

    @property
    def micro_batch_size(self) -> int:
        """Samples of one forward and backward."""
        return self.config.micro_batch_size or self.share

    def train_step(self, batch: Batch, learning_rate: float) -> tuple[Tensor, Tensor, Tensor]:
        """Train on this process's samples.

        Returns:
            Summed nats by channel, (channels,) float64; number of targets by channel, (channels,); the gradient's
            norm before clipping, (). The first two are this process's alone, and nothing waits for the device.
        """
        tensors = self.tensors(batch)
        counts = self._count(batch)
        targets = self.sum_over_processes(counts.sum())
        sums = torch.zeros(len(counts), dtype=torch.float64, device=self.device)
        parts = list(zip(*(torch.split(tensor, self.micro_batch_size) for tensor in tensors), strict=True))
        for number, part in enumerate(parts):
            sums += self._backward(part, targets, last=number == len(parts) - 1)
        return sums, counts, self._update(learning_rate)

    def tensors(self, batch: Batch) -> list[Tensor]:
        """Arguments of the loss module, on the device."""
        arrays = [batch.inputs, batch.targets, batch.channels]
        if self.config.document_mask:
            arrays.append(batch.documents)
        return [torch.from_numpy(array).to(self.device) for array in arrays]

    def _count(self, batch: Batch) -> Tensor:
        scored = torch.from_numpy(batch.channels[batch.targets != IGNORED])
        return torch.bincount(scored, minlength=self.module.channels).double().to(self.device)

    def sum_over_processes(self, tensor: Tensor) -> Tensor:
        """The sum of `tensor` over all processes."""
        return tensor

    @abstractmethod
    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        """Add a micro-batch's gradient, of the mean over `targets`; returns its summed nats by channel."""

    @abstractmethod
    def _update(self, learning_rate: float) -> Tensor:
        """Clip, step, zero; returns the gradient's norm before clipping."""

    @abstractmethod
    def save(self, directory: Path) -> None:
        """Write weights and optimizer below `directory`; every process calls it."""

    @abstractmethod
    def load(self, directory: Path) -> None:
        """Read back what `save` wrote."""


def make_engine(model: Any, channels: int, config: TrainConfig) -> Engine:
    """The engine that the config asks for, around `model`.

    Raises:
        InputError: the world size does not divide the batch, or plain torch is asked for in several processes.
    """
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    plain = config.engine == "torch" or (
        config.engine == "auto" and world_size == 1 and not torch.cuda.is_available() and config.zero_stage == 0
    )
    if plain and world_size > 1:
        raise InputError(f"engine=torch is for one process, there are {world_size}: set engine=deepspeed or auto")
    share, rest = divmod(config.global_batch_size, world_size)
    if rest or share % (config.micro_batch_size or share):
        raise InputError(
            f"global_batch_size={config.global_batch_size} is not micro_batch_size={config.micro_batch_size} times a "
            f"whole number for each of {world_size} processes"
        )
    if plain:
        from argosy.training.torch_engine import TorchEngine

        return TorchEngine(model, channels, config)
    from argosy.training.deepspeed_engine import DeepSpeedEngine

    return DeepSpeedEngine(model, channels, config)
