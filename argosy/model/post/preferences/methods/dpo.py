"""Direct Preference Optimization (Rafailov et al. 2023, equation 7), and its conservative form for labels that are
wrong at times (Mitchell 2023)."""

from argosy.model.post.preferences.methods import Answers, SmoothedMethod, Tensor


class DPO(SmoothedMethod):
    def losses(self, chosen: Answers, rejected: Answers) -> Tensor:
        return self.smoothed(self.beta * (chosen.ratios - rejected.ratios))
