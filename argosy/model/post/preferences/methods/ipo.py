"""Identity Preference Optimization (Azar et al. 2023, equation 17): the margin is drawn to 1 / (2 beta) and no further.

Log-ratios are means over an answer's tokens, as in the experiments of the paper's authors, so that long answers do not
weigh more."""

from typing import TYPE_CHECKING

from argosy.model.post.preferences.methods import Answers, Method, Settings

if TYPE_CHECKING:
    from torch import Tensor


def _reward(config: Settings, answers: Answers) -> "Tensor":
    return answers.ratios / answers.tokens


def _losses(config: Settings, chosen: Answers, rejected: Answers) -> "Tensor":
    return (_reward(config, chosen) - _reward(config, rejected) - 1 / (2 * config.beta)).square()


METHOD = Method(_reward, _losses, fields=("beta", "sft_weight"))
