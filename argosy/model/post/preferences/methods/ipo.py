"""Identity Preference Optimization (Azar et al. 2023, equation 17): the margin is drawn to 1 / (2 beta) and no further.

Log-ratios are means over an answer's tokens, as in the authors' experiments, so that long answers do not weigh more."""

from argosy.model.post.preferences.methods import Answers, LikelihoodMethod, Tensor


class IPO(LikelihoodMethod):
    def reward(self, answers: Answers) -> Tensor:
        return answers.ratios / answers.tokens

    def losses(self, chosen: Answers, rejected: Answers) -> Tensor:
        return (self.reward(chosen) - self.reward(rejected) - 1 / (2 * self.beta)).square()
