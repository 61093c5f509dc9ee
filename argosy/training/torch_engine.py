"""Plain torch, one process: what a laptop needs, without DeepSpeed's import and bookkeeping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from argosy.training.config import TrainConfig
from argosy.training.engine import Engine
from argosy.training.model import LossModule
from argosy.training.optimizers import make_optimizer


class TorchEngine(Engine):
    """Gradient accumulation, clipping and the optimizer, on the CPU or one GPU."""

    def __init__(self, model: Any, channels: int, config: TrainConfig) -> None:
        super().__init__(config)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        dtype = getattr(torch, config.dtype)
        self.module = LossModule(model.to(self.device), channels, dtype, config.z_loss, config.sequence_length)
        self._optimizer = make_optimizer(model, config)
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        loss: Tensor
        sums: Tensor
        loss, sums = self.module(*part)
        (loss / targets).backward()
        return sums

    def _update(self, learning_rate: float) -> Tensor:
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self.config.max_grad_norm, foreach=True)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm

    def save(self, directory: Path) -> None:
        """Write `engine.pt`."""
        state = {"model": self.module.model.state_dict(), "optimizer": self._optimizer.state_dict()}
        torch.save(state, directory / "engine.pt")

    def load(self, directory: Path) -> None:
        """Read `engine.pt`."""
        state = torch.load(directory / "engine.pt", map_location=self.device, weights_only=True)
        self.module.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
