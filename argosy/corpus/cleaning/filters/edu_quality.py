"""Educational value by a model of Hugging Face, as FineWeb-Edu scores pages (Penedo et al. 2024, section 4): regression
on a small encoder, from annotations of 0 to 5 by a large model; what rounds to 3 and more is kept."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.classifier.model_paths import ModelFilterConfig
from argosy.corpus.cleaning.filter import Filter, Rule, Scores


class EduQualityConfig(ModelFilterConfig):
    """The model and the least score, the paper's."""

    name: str = "edu_quality"
    skip_channels: tuple[str, ...] = ("code",)
    model: Annotated[str, Field(min_length=1)]
    """Directory of a model for sequence classification, or `org/name@commit` of the Hugging Face hub, such as
    HuggingFaceFW/fineweb-edu-classifier@<40 hexadecimal digits>."""
    least: float = 2.5
    """Least score, which is not rounded: FineWeb-Edu keeps what rounds to 3."""
    max_tokens: Annotated[int, Field(ge=1)] = 512
    """Tokens of a text that are looked at, from its beginning, as far as the model goes."""


class EduQuality(Filter[EduQualityConfig]):
    """A filter that asks a regression what a document is worth to a learner.

    Scores: `score`, the model's one output; of a classifier with several labels, the mean of their numbers under its
    probabilities. NaN in channels that it skips."""

    scoring: ClassVar[tuple[str, ...]] = ("model", "max_tokens", "skip_channels")
    measured: ClassVar[bool] = True

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Score the beginning of each document."""
        asked = [at for at, each in enumerate(batch.documents) if each.channel not in self.config.skip_channels]
        scores = np.full(len(batch), np.nan)
        if asked:
            texts = [batch.documents[at].text for at in asked]
            scores[asked] = self.resources.measurer().labels(self.config.model, texts, self.config.max_tokens)
        return batch, {"score": scores}

    def rules(self) -> Sequence[Rule]:
        """Look at the score."""
        return [Rule("score", "little educational value", least=self.config.least)]
