"""Odds Ratio Preference Optimization (Hong et al. 2024, equations 4 to 7): fine-tuning on the chosen answers with their
prompts, and `beta` times the log-odds of chosen over rejected ones; no reference."""

from typing import ClassVar

from argosy.model.post.preferences.methods import Answers, Method, Tensor

_LEAST = 2.0**-24  # from 1 to the float32 below it


def _log_odds(answers: Answers) -> Tensor:
    """Return log(P / (1 - P)), P being the geometric mean of an answer's probabilities.

    1 - P is at least _LEAST, so that a P that rounding has made 1 has finite odds and a gradient."""
    return answers.means - (-answers.means.expm1()).clamp(min=_LEAST).log()


class ORPO(Method):
    reference: ClassVar[bool] = False
    prompts: ClassVar[bool] = True

    def reward(self, answers: Answers) -> Tensor:
        return self.beta * answers.means

    def losses(self, chosen: Answers, rejected: Answers) -> Tensor:
        from torch.nn.functional import logsigmoid

        return -chosen.likelihood - self.beta * logsigmoid(_log_odds(chosen) - _log_odds(rejected))
