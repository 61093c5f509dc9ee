"""Engines that run the forward, the backward and the optimizer: their common base, plain torch, and DeepSpeed."""

import logging
import os
import socket
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from argosy.models.loss import LossModule
from argosy.tokens.mixture import Batch
from argosy.tokens.windows import IGNORED
from argosy.training.config import TrainConfig
from argosy.training.optim import make_optimizer
from argosy.training.parallel import Group
from argosy.training.precision import speed_up_bfloat16


class Engine(ABC):
    """One optimizer step at a time over this process's share of a global batch.

    Attributes:
        module: the loss module, on the group's device."""

    def __init__(self, model: Any, channels: int, config: TrainConfig, group: Group) -> None:
        speed_up_bfloat16()
        self.config, self.group = config, group
        dtype = getattr(torch, config.dtype)
        self.module = LossModule(model.to(group.device), channels, dtype, config.z_loss, config.sequence_length)
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def positions(self, step: int) -> range:
        """Return this process's samples of step `step` (0, 1, ...)."""
        share = self.config.global_batch_size // self.group.world
        start = step * self.config.global_batch_size + self.group.rank * share
        return range(start, start + share)

    def train_step(self, batch: Batch, learning_rate: float) -> tuple[Tensor, Tensor, Tensor]:
        """Train on this process's samples.

        Returns:
            Summed nats by channel, (channels,) float64; number of targets by channel, (channels,); the gradient's
            norm before clipping, (). The first two are this process's alone, and nothing waits for the device."""
        tensors = self._tensors(batch)
        scored = torch.from_numpy(batch.channels[batch.targets != IGNORED])
        counts = torch.bincount(scored, minlength=self.module.channels).double().to(self.group.device)
        targets = self.group.sum(counts.sum())
        sums = torch.zeros(len(counts), dtype=torch.float64, device=self.group.device)
        parts = list(zip(*(torch.split(tensor, self.config.micro_batch) for tensor in tensors), strict=True))
        for number, part in enumerate(parts):
            sums += self._backward(part, targets, last=number == len(parts) - 1)
        return sums, counts, self._update(learning_rate)

    def _tensors(self, batch: Batch) -> list[Tensor]:
        """Return the arguments of the loss module, on the device."""
        arrays = [batch.inputs, batch.targets, batch.channels]
        if self.config.document_mask:
            arrays.append(batch.documents)
        return [torch.from_numpy(array).to(self.group.device) for array in arrays]

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


class TorchEngine(Engine):
    """Gradient accumulation, the sum over processes, clipping and the optimizer, without DeepSpeed's import."""

    def __init__(self, model: Any, channels: int, config: TrainConfig, group: Group) -> None:
        super().__init__(model, channels, config, group)
        self._optimizer = make_optimizer(model, config)

    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        loss: Tensor
        sums: Tensor
        loss, sums = self.module(*part)
        (loss / targets).backward()
        return sums

    def _update(self, learning_rate: float) -> Tensor:
        self.group.sum_gradients(self._parameters)
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self.config.max_grad_norm, foreach=True)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm

    def save(self, directory: Path) -> None:
        """Write `engine.pt`; all processes hold the same."""
        if self.group.rank == 0:
            state = {"model": self.module.model.state_dict(), "optimizer": self._optimizer.state_dict()}
            torch.save(state, directory / "engine.pt")

    def load(self, directory: Path) -> None:
        """Read `engine.pt`."""
        state = torch.load(directory / "engine.pt", map_location=self.group.device, weights_only=True)
        self.module.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])


class DeepSpeedEngine(Engine):
    """`deepspeed.initialize` around our module and our optimizer; autocast stays ours, so the arithmetic is torch's."""

    def __init__(self, model: Any, channels: int, config: TrainConfig, group: Group) -> None:
        super().__init__(model, channels, config, group)
        on_gpu = group.device.type == "cuda"
        _prepare_environment(on_gpu)
        import deepspeed

        logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
        # DeepSpeed would compile this shared-memory collective at the first use and fail without a compiler.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        deepspeed.init_distributed("nccl" if on_gpu else "gloo", auto_mpi_discovery=False, verbose=False)
        self._accumulation = config.global_batch_size // (config.micro_batch * group.world)
        self._engine = deepspeed.initialize(
            model=self.module, optimizer=make_optimizer(model, config), config=self._settings(),
        )[0]

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "train_micro_batch_size_per_gpu": self.config.micro_batch,
            "gradient_accumulation_steps": self._accumulation, "zero_optimization": {"stage": self.config.zero_stage},
            "zero_allow_untested_optimizer": True, "steps_per_print": 10**12
        }
        if self.config.zero_stage:
            settings["gradient_clipping"] = self.config.max_grad_norm
        return settings

    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        sums: Tensor
        loss, sums = self._engine(*part)
        # DeepSpeed averages over processes and micro-batches; ours is the mean over the global batch's targets.
        self._engine.backward(loss / targets * self.group.world * self._accumulation)
        if not last:
            self._engine.step()
        return sums

    def _update(self, learning_rate: float) -> Tensor:
        for group in self._engine.optimizer.param_groups:
            group["lr"] = learning_rate
        norm = None
        if not self.config.zero_stage:  # gradients are whole after the last backward, and DeepSpeed tells no norm
            norm = torch.nn.utils.clip_grad_norm_(self._parameters, self.config.max_grad_norm, foreach=True)
        self._engine.step()
        return torch.as_tensor(self._engine.get_global_grad_norm()) if norm is None else norm

    def save(self, directory: Path) -> None:
        """Write DeepSpeed's sharded checkpoint."""
        self._engine.save_checkpoint(str(directory), tag="engine")

    def load(self, directory: Path) -> None:
        """Read DeepSpeed's sharded checkpoint."""
        self._engine.load_checkpoint(str(directory), tag="engine")


def _prepare_environment(on_gpu: bool) -> None:
    """Set what DeepSpeed reads when it is imported: the accelerator, and the rendezvous of a lone process."""
    if not on_gpu:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    if "WORLD_SIZE" not in os.environ:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def make_engine(model: Any, channels: int, config: TrainConfig, group: Group) -> Engine:
    """Return the engine that the config names, around `model`."""
    on_cpu = group.device.type == "cpu"
    plain = config.engine == "torch" or (config.engine == "auto" and on_cpu and config.zero_stage == 0)
    return (TorchEngine if plain else DeepSpeedEngine)(model, channels, config, group)
