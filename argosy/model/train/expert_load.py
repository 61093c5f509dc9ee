"""Log of a mixture's routers: their losses, and the share of the tokens that each expert gets."""

import csv
import io
from typing import Any

import torch
from torch import Tensor

from argosy.core.step.contract import StepContext
from argosy.core.store.files import write_atomic
from argosy.core.store.step_files import TRACKING
from argosy.model.train.parallel import Group

NAME = "expert_load.csv"


class ExpertLoad:
    """Means since the last log of what the routers of a loss module recorded, over all processes.

    Its `state` goes into the resumable state, so that a resumed run logs the same. Dense models have nothing here."""

    def __init__(self, module: Any, group: Group) -> None:
        self._routing: Any = getattr(module, "routing", None)
        self._group = group
        self._before: Tensor | None = None  # of the run that was resumed

    def _take(self) -> Tensor:
        """Return the sums over all processes since the last time; each of them calls this."""
        here = self._routing.take().to(self._group.device)
        if self._before is not None:
            here, self._before = here + self._before, None
        return self._group.sum(here).cpu()

    def state(self) -> dict[str, Any]:
        """Return the sums for `restore`, which this process then goes on from; each process calls this."""
        if self._routing is None:
            return {}
        total = self._take()
        self.restore({"routing": total})
        return {"routing": total}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`; one process holds the sums of all, so that the sum over processes stays."""
        if self._routing is not None and "routing" in state:
            self._before = state["routing"].to(self._group.device) * (1.0 if self._group.rank == 0 else 0.0)

    def metrics(self, context: StepContext) -> dict[str, float]:
        """Return `train/balance_loss`, `train/router_z_loss` and the loads of each block with experts and over all,
        and write the share of each expert; empties the sums.

        A load is a multiple of the even one: `train/experts/max_load` and `min_load` are 1 where routing is even, as
        is `entropy`, a share of that of even routing. Over all blocks: the highest, the lowest, the mean."""
        if self._routing is None:
            return {}
        total = self._take()
        layers, experts = self._routing.layers, self._routing.experts
        tokens, (balance, penalty, targets) = total[:-3].view(len(layers), experts), total[-3:].tolist()
        shares = tokens / tokens.sum(dim=1, keepdim=True).clamp(min=1)
        if context.rank == 0:
            self._write(context, shares)
        load = {"max_load": shares.amax(dim=1) * experts, "min_load": shares.amin(dim=1) * experts,
                "entropy": -torch.special.xlogy(shares, shares).sum(dim=1) / torch.tensor(float(experts)).log()}
        over: dict[str, Any] = {"max_load": torch.max, "min_load": torch.min, "entropy": torch.mean}
        values = {"train/balance_loss": balance / targets, "train/router_z_loss": penalty / targets}
        for name, column in load.items():
            values[f"train/experts/{name}"] = float(over[name](column))
            values |= {f"train/experts/{name}/{layer}": float(column[row]) for row, layer in enumerate(layers)}
        return values

    def _write(self, context: StepContext, shares: Tensor) -> None:
        """Write the share of each expert in its block's tokens, a row of the table for each block."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["block", *range(self._routing.experts)])
        rows.writerows([layer, *(f"{each:.6f}" for each in row)]
                       for layer, row in zip(self._routing.layers, shares.tolist(), strict=True))
        path = context.out / TRACKING / NAME
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, text.getvalue())
        context.tracker.artifact(path, "experts")
