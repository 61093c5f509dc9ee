"""Simple Preference Optimization (Meng et al. 2024, equation 6): no reference, the reward is the mean log-probability
of an answer's tokens, and the better one is to be ahead by `gamma`."""

from typing import TYPE_CHECKING

from argosy.model.post.preferences.methods import Answers, Method, Settings

if TYPE_CHECKING:
    from torch import Tensor


def _losses(config: Settings, chosen: Answers, rejected: Answers) -> "Tensor":
    from torch.nn.functional import logsigmoid

    margin, wrong = config.beta * (chosen.means - rejected.means) - config.gamma, config.label_smoothing
    return -(1 - wrong) * logsigmoid(margin) - wrong * logsigmoid(-margin)


METHOD = Method(lambda config, answers: config.beta * answers.means, _losses, reference=False,
                fields=("beta", "gamma", "label_smoothing", "sft_weight"))
