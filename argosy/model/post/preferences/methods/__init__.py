"""Methods that learn from preferences, one a file: a class whose fields are fields of the step's config."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.plugins import Folder

if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:
    Tensor = Any  # methods are imported without torch


@dataclass(frozen=True)
class Answers:
    """One answer of each example; all tensors are (examples,)."""

    logprobs: Tensor
    """Log-probability of the answer, nats."""
    reference: Tensor
    """The same under the reference; 0 where the method has none."""
    tokens: Tensor
    """Tokens of the answer."""
    likelihood: Tensor
    """Log-probability of prompt and answer by token, each token of an update weighing the same; 0 where the method does
    not ask for it."""

    @property
    def ratios(self) -> Tensor:
        return self.logprobs - self.reference

    @property
    def means(self) -> Tensor:
        return self.logprobs / self.tokens


class Method(Config):
    """Base of the methods of pairs. A new method's fields have the role ADDED, so that no digest of the others changes.

    Attributes:
        name: that of its module.
        reference: whether it compares with the model that training starts from.
        prompts: whether it asks for the likelihood of the chosen answers with their prompts.
        single: whether it learns from single answers."""

    name: ClassVar[str] = ""
    reference: ClassVar[bool] = True
    prompts: ClassVar[bool] = False
    single: ClassVar[bool] = False

    beta: float = Field(default=0.1, gt=0)
    """Strength that holds the policy to the reference (the checkpoint that it starts from); of simpo the scale of the
    reward (2 to 2.5 in its paper), of orpo the weight of the odds."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.name = cls.__module__.rpartition(".")[2]

    def reward(self, answers: Answers) -> Tensor:
        """Return the implicit reward of answers, (examples,), by which held-out pairs are compared."""
        return self.beta * answers.ratios

    def losses(self, chosen: Answers, rejected: Answers) -> Tensor:
        """Return the losses of pairs, (pairs,)."""
        raise NotImplementedError(f"the method {self.name} does not learn from pairs")

    def total(self, chosen: Answers, rejected: Answers) -> Tensor:
        """Return the losses of pairs with what is common to several methods, (pairs,)."""
        return self.losses(chosen, rejected)


class SingleMethod(Method):
    """Base of the methods of answers that are good or bad by themselves."""

    single: ClassVar[bool] = True

    def single_losses(self, answers: Answers, good: Tensor, divergence: Tensor) -> Tensor:
        """Return the losses of answers, (examples,).

        `good`: whether each is, (examples,) bool. `divergence`: the policy's from its reference, ()."""
        raise NotImplementedError(f"the method {self.name} does not learn from single answers")


class LikelihoodMethod(Method):
    """Base of methods with the chosen answers' likelihood beside the loss of pairs."""

    sft_weight: float = Field(default=0.0, ge=0)
    """Weight of the chosen answers' mean negative log-likelihood beside the loss of pairs (Pang et al. 2024), such
    as 1; orpo has its own."""

    def total(self, chosen: Answers, rejected: Answers) -> Tensor:
        losses = self.losses(chosen, rejected)
        return losses - self.sft_weight * chosen.means if self.sft_weight else losses


class SmoothedMethod(LikelihoodMethod):
    """Base of methods of the margin's logistic loss, where labels may be wrong at times (Mitchell 2023)."""

    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    """Assumed part of the pairs that are the wrong way round (dpo, robust, simpo)."""

    def smoothed(self, margin: Tensor) -> Tensor:
        from torch.nn.functional import logsigmoid

        return -(1 - self.label_smoothing) * logsigmoid(margin) - self.label_smoothing * logsigmoid(-margin)


METHODS: Folder[type[Method]] = Folder("method", Method, __name__)
