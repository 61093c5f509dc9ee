"""Caps on epochs: how often a phase may see each channel, by itself and with the phases before."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator

from argosy.core.config.schema import Rate
from argosy.corpus.data.sources import check_channels, rest_of

FEW_EPOCHS = 4.0  # up to so many, a repeated token teaches nearly as much as a new one (Muennighoff et al. 2023)

Beyond = Literal["warn", "refuse", "redistribute"]


def _by_channel(given: Any) -> Any:
    return {"*": given} if isinstance(given, int | float) and not isinstance(given, bool) else given


EpochCaps = Annotated[dict[str, Rate], BeforeValidator(_by_channel)]  # by channel, or one number for all


@dataclass(frozen=True)
class Caps:
    """Limits of a phase.

    Attributes:
        phase: epochs of a channel within the phase.
        in_all: those over the phase and all before it; FEW_EPOCHS for a channel that neither of the two names.
        beyond: what becomes of a mixture that exceeds them."""

    phase: Mapping[str, float] = field(default_factory=dict)
    in_all: Mapping[str, float] = field(default_factory=dict)
    beyond: Beyond = "warn"

    @classmethod
    def of(cls, phase: Mapping[str, Any], channels: Collection[str]) -> Self:
        """Read the fields of a phase's config. Raises InputError: they name a channel that is not there."""
        phase_caps, in_all = (_of_each(phase[field], channels, field) for field in ("max_epochs", "max_epochs_in_all"))
        return cls(phase_caps, in_all, phase["over_max_epochs"])

    def __getitem__(self, channel: str) -> tuple[float | None, float | None]:
        """Return a channel's caps, of the phase and in all."""
        phase, in_all = self.phase.get(channel), self.in_all.get(channel)
        return phase, FEW_EPOCHS if phase is None and in_all is None else in_all

    def left(self, channel: str, before: float) -> float:
        """Return the epochs that are left of a channel of which the phases before have seen `before`."""
        phase, in_all = self[channel]
        return max(0.0, min(math.inf if phase is None else phase, math.inf if in_all is None else in_all - before))


def _of_each(caps: Mapping[str, float], channels: Collection[str], where: str) -> dict[str, float]:
    """Return the cap of each channel that has one, by its name or as one of the others."""
    rest = rest_of(caps, channels, where)
    check_channels([name for name in caps if name != rest], channels, where)
    return {name: caps.get(name, caps.get(rest, 0.0)) for name in channels if name in caps or rest}
