"""Quality by a classifier of one's own (Brown et al. 2020, appendix A; FineWeb-Edu, Penedo et al. 2024): how likely a
document is one of the positive set."""

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from argosy.core.errors import InputError
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.classifier.model import Classifier
from argosy.corpus.cleaning.classifier.model_paths import ModelFilterConfig
from argosy.corpus.cleaning.filter import Filter, Rule, Scores, Share


class QualityClassifierConfig(ModelFilterConfig):
    """The classifier and its thresholds, which drop nothing by default: `clean.tiers` may select instead."""

    name: str = "quality_classifier"
    skip_channels: tuple[str, ...] = ("code",)
    model: str = ""
    """Directory of a classifier; empty: the one that the stage `classifier` trains."""
    least_probability: Share = 0.0
    """Least probability to be of the positive set."""


class QualityClassifier(Filter[QualityClassifierConfig]):
    """A filter that asks a classifier of hashed n-grams (docs/cleaning.md). Scores: `probability`, calibrated."""

    scoring: ClassVar[tuple[str, ...]] = ("model",)

    @cached_property
    def _classifier(self) -> Classifier:
        directory = self.resources.models.get(self.config.model)
        if directory is None:
            raise InputError("filter quality_classifier has no classifier: set classifier.positives to files of good "
                             "documents, which trains one, or the filter's model to the directory of one")
        return Classifier.load(directory)

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Ask the classifier about the beginning of each document."""
        return batch, {"probability": self._classifier(batch)}

    def rules(self) -> Sequence[Rule]:
        """Look at the probability."""
        return [Rule("probability", "unlike the positive documents", least=self.config.least_probability)]
