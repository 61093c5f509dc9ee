"""1 for an answer that is the prompt's `answer`, but for case, width, spaces and marks around it."""

from argosy.corpus.text.answers import canonical
from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score, shown


class ExactConfig(RewardConfig):
    numbers: bool = True
    """Whether numbers are compared as numbers: 1,000.0 is 1000."""


class Exact(Reward[ExactConfig]):
    """The answer is the prompt's, in SQuAD's normal form."""

    checks = "answer"

    def score(self, sample: Sample, reference: str) -> Score:
        wanted, given = (canonical(text, self.config.numbers) for text in (reference, sample.text))
        if not given:
            return Score(0.0, "empty")
        return Score(1.0) if given == wanted else Score(0.0, f"{shown(given)!r} is not {shown(wanted)!r}")
