"""Dynamic scaling of the loss for float16, whose small gradients would be zero (Micikevicius et al. 2018).

torch's GradScaler decides the scale. It is shown the norm of the gradients over all processes and not each of them: the
norm is finite where all of them are, so that every process skips the same steps, whatever part of them it holds."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

LOSS_SCALE = "loss_scale/state"  # its name in a state


class LossScale:
    """The factor of the loss: halved when a gradient overflows, doubled after 2,000 steps without.

    Attributes:
        skipped: optimizer steps that were left out, as their gradient was not finite."""

    def __init__(self, device: torch.device) -> None:
        self._scaler = torch.amp.GradScaler(device.type)
        self._norm = nn.Parameter(torch.zeros((), device=device))
        self._shown = torch.optim.SGD([self._norm], lr=0.0)
        self.skipped = 0

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale."""
        found: Tensor = self._scaler.scale(loss)
        return found

    @property
    def value(self) -> float:
        """The present scale."""
        return self._scaler.get_scale()

    def unscale(self, gradients: Sequence[Tensor], norm: Tensor) -> tuple[Tensor, bool]:
        """Divide the gradients by the scale, and choose the next one.

        Args:
            norm: of the gradients of all processes, before they were clipped to a norm times the scale.

        Returns:
            The norm without the scale, and whether the optimizer may step."""
        factor = 1 / self.value
        self._norm.grad = norm.detach().float().clone()
        self._scaler.unscale_(self._shown)
        self._scaler.step(self._shown)
        self._scaler.update()
        finite = bool(self._norm.grad.isfinite())
        if finite:
            torch._foreach_mul_(list(gradients), factor)
        else:
            self.skipped += 1
            print(f"a step is skipped, as its gradient is not finite in float16; the loss is scaled by {self.value:g} "
                  "from now on", flush=True)
        return norm * factor, finite

    def measures(self) -> dict[str, float]:
        """Return the scale and the number of skipped steps, for the log."""
        return {"train/loss_scale": self.value, "train/skipped_steps": float(self.skipped)}

    def state(self) -> Tensor:
        """Return what `restore` takes, (3,): the scale, the steps since it changed, the steps skipped."""
        state = self._scaler.state_dict()
        return torch.tensor([state["scale"], state["_growth_tracker"], self.skipped], dtype=torch.float64)

    def restore(self, state: Tensor) -> None:
        """Go on from `state`."""
        scale, since, skipped = state.tolist()
        kept: dict[str, Any] = self._scaler.state_dict()
        self._scaler.load_state_dict({**kept, "scale": scale, "_growth_tracker": int(since)})
        self.skipped = int(skipped)
