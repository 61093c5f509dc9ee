"""Training losses by channel between two log lines, without waiting for the device at each step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from argosy.errors import StepError
from argosy.training.engine import Engine


class LossWindow:
    """Collects each step's summed nats and counts by channel; reduced over processes when it is read.

    Its `state` goes into the resumable state, so that a resumed run logs the same averages.
    """

    def __init__(self, names: tuple[str, ...], engine: Engine) -> None:
        self._names = names
        self._engine = engine
        self._steps: list[Tensor] = []  # (2, channels) each: nats and counts

    def add(self, sums: Tensor, counts: Tensor) -> None:
        """One step's summed nats and number of targets by channel, both (channels,), of this process."""
        self._steps.append(torch.stack([sums, counts]))

    def __len__(self) -> int:
        return len(self._steps)

    def state(self) -> dict[str, Any]:
        """What `restore` needs: the sums over all processes, each of which calls this."""
        return {"losses": [self._engine.sum_over_processes(step).cpu() for step in self._steps]}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`; one process holds what all had, so that the sum over processes stays."""
        share = 1.0 if self._engine.rank == 0 else 0.0
        self._steps = [step.to(self._engine.device) * share for step in state["losses"]]

    def check(self, step: int) -> None:
        """See that every loss is finite; `step` is the number of steps done.

        Raises:
            StepError: names the first step and the channels whose loss is not a number.
        """
        if not self._steps:
            return
        # over all processes, so that all of them stop and none waits for another
        finite = self._engine.sum_over_processes(torch.stack(self._steps))[:, 0].isfinite().cpu()
        if bool(finite.all()):
            return
        first = int((~finite).any(dim=1).nonzero()[0])
        channels = [name for name, ok in zip(self._names, finite[first].tolist(), strict=True) if not ok]
        raise StepError(
            f"the loss at step {step - len(self._steps) + first + 1} is not a finite number, in channel "
            f"{', '.join(channels)}: lower learning_rate or max_grad_norm, or lengthen warmup_tokens"
        )

    def take(self) -> dict[str, float]:
        """Mean nats over the window as `train/loss` and `train/loss/<channel>`; empties it."""
        total = self._engine.sum_over_processes(torch.stack(self._steps).sum(dim=0)).cpu()
        self._steps = []
        nats, counts = total
        losses = {"train/loss": float(nats.sum() / counts.sum())}
        for index, name in enumerate(self._names):
            if counts[index] > 0:
                losses[f"train/loss/{name}"] = float(nats[index] / counts[index])
        return losses
