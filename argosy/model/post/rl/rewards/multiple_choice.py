"""1 for an answer that ends up choosing the letter of the prompt's `answer`, else 0.

"The answer is (B)", "答案是B", "\\boxed{B}", "B" and "(B) Paris" choose B: what is stated last goes before a letter
that the text begins with, and that before the only one that stands alone. Several letters, or "B or C", choose none."""

from pydantic import Field

from argosy.corpus.text.options import chosen_label, chosen_labels, denied, readable
from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score


class MultipleChoiceConfig(RewardConfig):
    letters: str = Field(default="ABCDE", min_length=2, max_length=26)
    """Letters of the options, such as ABCD."""


class MultipleChoice(Reward[MultipleChoiceConfig]):
    checks = "answer"

    def refusal(self, reference: str) -> str:
        return "" if self._chosen(reference)[0] else f"allowed: one of the letters {self.config.letters}"

    def score(self, sample: Sample, reference: str) -> Score:
        given, reason = self._chosen(sample.text)
        wanted, _ = self._chosen(reference)
        if not given:
            return Score(0.0, reason)
        return Score(1.0, given) if given == wanted else Score(0.0, f"{given}, not {wanted}")

    def _chosen(self, text: str) -> tuple[str, str]:
        """Return the letter that a text chooses, or "" and the reason why it chooses none."""
        letters = self.config.letters
        text = readable(text, letters)
        several = chosen_labels(text, letters, denied(text, letters)) or ""
        if len(several) > 1:
            return "", f"several letters: {', '.join(several)}"
        return chosen_label(text, letters) or "", "no letter"
