"""Direct Preference Optimization (Rafailov et al. 2023, equation 7), and its conservative form for labels that are
wrong at times (Mitchell 2023)."""

from typing import TYPE_CHECKING

from argosy.model.post.preferences.methods import Answers, Method, Settings

if TYPE_CHECKING:
    from torch import Tensor


def _losses(config: Settings, chosen: Answers, rejected: Answers) -> "Tensor":
    from torch.nn.functional import logsigmoid

    margin, wrong = config.beta * (chosen.ratios - rejected.ratios), config.label_smoothing
    return -(1 - wrong) * logsigmoid(margin) - wrong * logsigmoid(-margin)


METHOD = Method(lambda config, answers: config.beta * answers.ratios, _losses,
                fields=("beta", "label_smoothing", "sft_weight"))
