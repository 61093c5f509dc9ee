"""Policy of the watch over training: what counts as trouble, and what is done about each kind of it."""

from typing import Annotated, Literal

from pydantic import Field

from argosy.core.config.schema import ADDED, Config

PositiveInt = Annotated[int, Field(gt=0)]
Action = Literal["tell", "skip", "back", "lower", "stop"]
GOES_BACK = ("skip", "back", "lower")


class WatchConfig(Config):
    """Actions: tell notes the trouble and goes on; stop ends the step. The others go back to the newest state before
    the trouble, and take the steps since then again: skip without the batches of the trouble, back without some before
    and after them either, lower with them, at a lower learning rate."""

    nonfinite: Literal["skip", "back", "lower", "stop"] = "skip"
    """A loss or gradient that is not a finite number."""
    spike: Action = "tell"
    """A step whose loss, gradient or divergence (RL) stands far above its course, over all or in one channel."""
    collapse: Action = "tell"
    """Steps whose loss falls far below its course, as where data repeat; in RL reward, length or entropy."""
    wild: Annotated[Literal["tell", "stop"], ADDED] = "tell"
    """A loss of pretraining or SFT that is 25 % above that of a guess, ln(vocabulary), in five of the first steps."""
    drift: Literal["tell", "lower", "stop"] = "tell"
    """A loss that rises slowly."""
    deviations: Annotated[float, Field(ge=3)] = 10.0
    """Robust standard deviations from its course that are far; three quarters of them in the first `early` steps."""
    window: Annotated[int, Field(ge=32)] = 128
    """Steps that the course is taken from."""
    early: Annotated[int, Field(ge=0)] = 100
    """Steps of the first phase."""
    before: Annotated[int, Field(ge=0)] = 2
    """Batches that `back` passes over before the trouble; steps before it from which on `lower` lowers the rate."""
    after: Annotated[int, Field(ge=0)] = 2
    """Batches that `back` passes over after it."""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Factor of the learning rate that `lower` sets until a window after the trouble; again, where that meets it."""
    most: PositiveInt = 8
    """Times that a phase goes back at most; it stops at the next one."""

    @property
    def acts(self) -> bool:
        """Tell whether trouble with finite numbers sends the phase back, which takes a state after its first step."""
        return not {self.spike, self.collapse, self.drift}.isdisjoint(GOES_BACK)
