"""Methods that learn from preferences, one a file: a module here has `METHOD`."""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from argosy.core.plugins import names

if TYPE_CHECKING:
    from torch import Tensor


class Settings(Protocol):
    """Fields of the config that methods read."""

    @property
    def beta(self) -> float: ...
    @property
    def label_smoothing(self) -> float: ...
    @property
    def gamma(self) -> float: ...
    @property
    def desirable_weight(self) -> float: ...
    @property
    def undesirable_weight(self) -> float: ...
    @property
    def sft_weight(self) -> float: ...


@dataclass(frozen=True)
class Answers:
    """One answer of each example; all tensors are (examples,)."""

    logprobs: "Tensor"
    """Log-probability of the answer, nats."""
    reference: "Tensor"
    """The same under the reference; 0 where the method has none."""
    tokens: "Tensor"
    """Tokens of the answer."""
    likelihood: "Tensor"
    """Log-probability of prompt and answer by token, each token of an update weighing the same; 0 where the method does
    not ask for it."""

    @property
    def ratios(self) -> "Tensor":
        """Return log p - log q of each answer."""
        return self.logprobs - self.reference

    @property
    def means(self) -> "Tensor":
        """Return the mean log-probability of an answer's tokens."""
        return self.logprobs / self.tokens


Losses = Callable[[Settings, Answers, Answers], "Tensor"]
FeedbackLosses = Callable[[Settings, Answers, "Tensor", "Tensor"], "Tensor"]


@dataclass(frozen=True)
class Method:
    """A way to learn from preferences.

    Attributes:
        reward: implicit reward of answers, (examples,): what held-out pairs are compared by.
        paired: losses of pairs, (pairs,), of the chosen and the rejected answers (`pair_losses` adds what is common to
            all); None: it learns from single ones.
        single: losses of single answers, (examples,), of them, whether each is good, (examples,) bool, and the policy's
            divergence from its reference, (); None: it learns from pairs.
        reference: whether it compares with the model that training starts from.
        prompts: whether it asks for the likelihood of the chosen answers with their prompts.
        fields: what it reads of the config."""

    reward: Callable[[Settings, Answers], "Tensor"]
    paired: Losses | None = None
    single: FeedbackLosses | None = None
    reference: bool = True
    prompts: bool = False
    fields: tuple[str, ...] = ("beta",)


def pair_losses(method: Method, config: Settings, chosen: Answers, rejected: Answers) -> "Tensor":
    """Return the losses of pairs, (pairs,), with the chosen answers' mean negative log-likelihood, weighed."""
    assert method.paired
    losses = method.paired(config, chosen, rejected)
    return losses - config.sft_weight * chosen.means if config.sft_weight else losses


def method_names() -> list[str]:
    """List all methods."""
    return names(sys.modules[__name__])


def find_method(name: str) -> Method:
    """Return the method of this name."""
    found: Method = importlib.import_module(f"{__name__}.{name}").METHOD
    return found
