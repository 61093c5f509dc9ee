"""DPO whose loss is unbiased where a part `label_smoothing` of the pairs is the wrong way round (Chowdhury et al. 2024,
"Provably Robust DPO", equation 12)."""

from typing import TYPE_CHECKING

from argosy.model.post.preferences.methods import Answers, Method, Settings

if TYPE_CHECKING:
    from torch import Tensor


def _losses(config: Settings, chosen: Answers, rejected: Answers) -> "Tensor":
    from torch.nn.functional import logsigmoid

    margin, wrong = config.beta * (chosen.ratios - rejected.ratios), config.label_smoothing
    return (wrong * logsigmoid(-margin) - (1 - wrong) * logsigmoid(margin)) / (1 - 2 * wrong)


METHOD = Method(lambda config, answers: config.beta * answers.ratios, _losses,
                fields=("beta", "label_smoothing", "sft_weight"))
