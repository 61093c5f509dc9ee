"""Training that has diverged stops at once, with what is not finite and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from argosy.errors import StepError

_ADVICE = "training has diverged: lower learning_rate or max_grad_norm, or raise warmup_ratio"


def check_values(values: Mapping[str, float], step: int) -> None:
    """See that what was measured after `step` optimiser steps is finite.

    Raises:
        StepError: names each value that is not.
    """
    wrong = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
    if wrong:
        raise StepError(f"after step {step}, {', '.join(wrong)}; {_ADVICE}")


def check_weights(model: Any, step: int) -> None:
    """See that `step`, an optimiser step, left finite weights.

    Clipping by the gradients' norm makes all of them NaN when one is not finite, so the smallest tensor tells.

    Raises:
        StepError: they are not.
    """
    weights = min((p for p in model.parameters() if p.requires_grad and p.numel()), key=lambda p: p.numel())
    if not bool(weights.isfinite().all()):
        raise StepError(f"step {step} made weights that are not finite numbers; {_ADVICE}")


def check_heldout(before: Mapping[str, float], after: Mapping[str, float], step: int) -> None:
    """See that held-out results are finite, before training and after `step` steps.

    Raises:
        StepError: they are not.
    """
    wrong = [f"{name} is {value}" for name, value in before.items() if not math.isfinite(value)]
    if wrong:
        raise StepError(f"before training, {', '.join(wrong)}: the checkpoint that it starts from cannot be scored; "
                        "train the step before again with a lower learning_rate")
    check_values(after, step)
