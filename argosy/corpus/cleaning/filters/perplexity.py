"""Loss of a language model by document (CCNet, Wenzek et al. 2020; Marion et al. 2023, "When Less is More"): it finds
dirt at both ends, as repeated lines and newlines cost a model next to nothing, random characters more than any text."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.classifier.model_paths import ModelFilterConfig
from argosy.corpus.cleaning.filter import Filter, Rule, Scores


class PerplexityConfig(ModelFilterConfig):
    """The model and the limits, in bits per byte: of other models the histogram of report.json shows where to cut."""

    name: str = "perplexity"
    skip_channels: tuple[str, ...] = ()
    model: Annotated[str, Field(min_length=1)]
    """Directory of a language model (an export of an earlier run, its step, or any that transformers loads), or
    `org/name@commit` of the Hugging Face hub."""
    least: Annotated[float, Field(ge=0)] = 0.1
    """Fewest bits per byte: repeated lines and newlines have fewer."""
    most: Annotated[float, Field(ge=0)] = 4.0
    """Most bits per byte: random characters have more."""
    min_bytes: Annotated[int, Field(ge=1)] = 50
    """Shorter texts pass: a few tokens without context cost much of any model."""
    look_at: Annotated[int, Field(ge=100)] = 20_000
    """Characters of a text that are scored, from its beginning."""

    def check_fields(self) -> None:
        if self.least > self.most:
            raise ValueError(f"least={self.least:g} is above most={self.most:g}, so that every document would go")


class Perplexity(Filter[PerplexityConfig]):
    """A filter that asks a language model how probable a text is, a long one in windows of its length.

    Scores: `bits_per_byte`, by which texts in any tokenizer compare, and `nats_per_token`, whose exponential is the
    perplexity; NaN of short texts and of channels that it skips."""

    scoring: ClassVar[tuple[str, ...]] = ("model", "min_bytes", "look_at", "skip_channels")
    measured: ClassVar[bool] = True

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Score the beginning of each document."""
        texts = [document.text[: self.config.look_at] for document in batch.documents]
        sizes = np.array([len(text.encode(errors="surrogatepass")) for text in texts], np.float64)
        skipped = np.array([document.channel in self.config.skip_channels for document in batch.documents], np.bool_)
        asked = np.flatnonzero((sizes >= self.config.min_bytes) & ~skipped)
        bits, nats = np.full(len(batch), np.nan), np.full(len(batch), np.nan)
        if len(asked):
            found, tokens = self.resources.measurer().losses(self.config.model, [texts[at] for at in asked.tolist()])
            bits[asked], nats[asked] = found / np.log(2) / sizes[asked], found / np.maximum(tokens, 1)
        return batch, {"bits_per_byte": bits, "nats_per_token": nats}

    def rules(self) -> Sequence[Rule]:
        """Look at both ends."""
        return [Rule("bits_per_byte", "too predictable", least=self.config.least),
                Rule("bits_per_byte", "too improbable", most=self.config.most)]
