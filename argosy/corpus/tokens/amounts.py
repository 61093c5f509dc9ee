"""Amounts of a stage of training: rows of an epoch, optimizer steps, epochs; and what there is too little for."""

from dataclasses import dataclass
from typing import Any

from argosy.core.errors import InputError


@dataclass(frozen=True)
class Amount:
    """Training over `rows` (of an epoch) in `steps` batches.

    Attributes:
        tokens: tokens of an epoch; None where they are not known."""

    rows: int
    batch: int
    steps: int
    tokens: int | None = None

    @property
    def epochs(self) -> float:
        """Return the passes over the rows."""
        return self.steps * self.batch / self.rows


def check_batch(field: str, batch: int, rows: int, what: str) -> None:
    """Refuse a batch of more than the `rows` that an epoch has: a step would see some of them twice. Raises InputError:
    it is one; `what` names the rows."""
    if not rows:
        raise InputError(f"there are none of the {what} that {field}={batch} is of: give more data, or see in the data "
                         "step's rejects and curation.json why what there is was set aside")
    if batch > rows:
        raise InputError(f"{field}={batch} is more than the {rows:,} {what}, and a batch has none twice: set {field} "
                         f"to {rows} or less, or give more data")


def micro_batch_problem(config: Any, field: str, *, written: bool = False) -> str:
    """Say that micro-batches are larger than the batch in the config's `field`; "" where not. Their default is, and is
    cut to the batch. `written`: a person has given it, which no step can tell: what a plan hands it has all fields."""
    micro, batch = config.micro_batch_size, getattr(config, field)
    default = not written and micro == type(config).model_fields["micro_batch_size"].default
    if not isinstance(micro, int) or micro <= batch or default:
        return ""
    return (f"micro_batch_size={micro} is more than {field}={batch}, of which it is a part: set it to {batch} or a "
            "divisor of that")
