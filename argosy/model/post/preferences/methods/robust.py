"""DPO whose loss is unbiased where a part `label_smoothing` of the pairs is the wrong way round (Chowdhury et al. 2024,
"Provably Robust DPO", equation 12)."""

from argosy.model.post.preferences.methods import Answers, SmoothedMethod, Tensor


class Robust(SmoothedMethod):
    def losses(self, chosen: Answers, rejected: Answers) -> Tensor:
        from torch.nn.functional import logsigmoid

        margin, wrong = self.beta * (chosen.ratios - rejected.ratios), self.label_smoothing
        return (wrong * logsigmoid(-margin) - (1 - wrong) * logsigmoid(margin)) / (1 - 2 * wrong)
