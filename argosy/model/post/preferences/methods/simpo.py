"""Simple Preference Optimization (Meng et al. 2024, equation 6): no reference, the reward is the mean log-probability
of an answer's tokens, and the better one is to be ahead by `gamma`."""

from typing import ClassVar

from pydantic import Field

from argosy.model.post.preferences.methods import Answers, SmoothedMethod, Tensor


class SimPO(SmoothedMethod):
    reference: ClassVar[bool] = False

    gamma: float = Field(default=0.5, ge=0)
    """Margin by which the better answer is to be ahead (simpo)."""

    def reward(self, answers: Answers) -> Tensor:
        return self.beta * answers.means

    def losses(self, chosen: Answers, rejected: Answers) -> Tensor:
        return self.smoothed(self.beta * (chosen.means - rejected.means) - self.gamma)
