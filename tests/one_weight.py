"""An engine of one weight, whose optimizer adds one to each of its numbers."""

from pathlib import Path

from argosy.core.lazy import torch
from argosy.model.train.parallelism import Group


class OneWeight:
    """What a store of states saves and loads: after n steps all numbers are n."""

    group, holds_parts, settled = Group(), True, True

    def __init__(self, numbers: int = 100_000) -> None:
        self.weight = torch.nn.Parameter(torch.zeros(numbers))
        self._optimizer = torch.optim.SGD([self.weight], lr=1.0)

    def step(self) -> None:
        self.weight.grad = -torch.ones_like(self.weight)
        self._optimizer.step()

    def save(self, directory: Path) -> None:
        from argosy.model.train.engines.parts import everywhere, write_parts

        write_parts(directory, self.group, [("weight/w", everywhere(self.weight.shape), lambda: self.weight)])

    def load(self, directory: Path) -> None:
        from argosy.model.train.engines.parts import Parts

        with torch.no_grad():
            self.weight.copy_(Parts(directory)["weight/w"])
