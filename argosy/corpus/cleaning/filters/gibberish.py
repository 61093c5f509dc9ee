"""Removal of text whose characters do not follow each other as the corpus's do.

A character-bigram model (Shannon 1948; for gibberish: Rennie's detector) is learnt from a sample of the
corpus itself, one for each script, and a text is judged by its mean log-probability per character against
the spread of the sample. Nothing is downloaded, and a corpus of another kind sets its own norm."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from pydantic import Field

from argosy.core.lazy import Floats, Hashes, np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Resources, Rule, Scores

if TYPE_CHECKING:
    from argosy.corpus.cleaning.kernels.filters.gibberish import Lookup

_SHIFT = 32
_SMOOTHING = 0.1


class GibberishConfig(FilterConfig):
    """Thresholds of gibberish."""

    name: str = "gibberish"
    skip_channels: tuple[str, ...] = ("code",)
    max_gap: Annotated[float, Field(gt=0)] = 1.2
    """Nats a character that a text may be below the corpus's median."""
    max_deviations: Annotated[float, Field(gt=0)] = 6.0
    """The same in median deviations; the larger of the two holds."""
    min_letters: Annotated[int, Field(ge=2)] = 20
    """Texts of fewer letters pass."""
    min_sample_letters: Annotated[int, Field(ge=1)] = 20_000
    """All texts pass where there are fewer letters to learn from."""
    look_at: Annotated[int, Field(ge=100)] = 4000
    """Characters of a text that are scored."""
    max_same_share: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Share of its visible characters that may be one and the same."""


class _Model(NamedTuple):
    """Probabilities log p(b | a), and their mean per character in the sample: the median and the median deviation."""

    scores: "Lookup"
    middle: float
    deviation: float


class Gibberish(Filter[GibberishConfig]):
    """A filter that drops random letters, key mashing, random Chinese characters and runs of one character.

    Scores: `gap`, nats a character below the median of the sample; `deviations`, the same in median deviations;
    `same_share`, of the visible characters that are one and the same."""

    scoring: ClassVar[tuple[str, ...]] = ("min_letters", "min_sample_letters", "look_at")

    def __init__(self, config: GibberishConfig, resources: Resources) -> None:
        super().__init__(config, resources)
        self._sample = [document for document in resources.sample if document.channel not in config.skip_channels]

    @cached_property
    def _models(self) -> dict[bool, _Model | None]:
        """Learn what is normal in Chinese (True) and in other texts of the sample."""
        batch = Batch(self._sample)
        parts = {han: [document for document, of in zip(self._sample, batch.han, strict=True) if of == han]
                 for han in (True, False)}
        return {han: self._learnt(Batch(part)) for han, part in parts.items()}

    def _learnt(self, batch: Batch) -> _Model | None:
        from argosy.corpus.cleaning.kernels.filters.gibberish import letters, pairs

        found, offsets = letters(batch.points, batch.starts, batch.han, self.config.look_at)
        many = np.diff(offsets) >= self.config.min_letters
        found, offsets = found[np.repeat(many, np.diff(offsets))], np.append(0, np.cumsum(np.diff(offsets)[many]))
        if len(found) < self.config.min_sample_letters:
            return None
        lookup = _learnt(pairs(found, offsets))
        scores = lookup.means(found, offsets)
        middle = float(np.median(scores))
        return _Model(lookup, middle, float(np.median(np.abs(scores - middle))))

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Score the first characters of each text."""
        from argosy.corpus.cleaning.kernels.filters.gibberish import letters, same_shares

        most = self.config.look_at
        found, offsets = letters(batch.points, batch.starts, batch.han, most)
        few = np.diff(offsets) < self.config.min_letters
        gap, deviations = np.full(len(batch), np.nan), np.full(len(batch), np.nan)
        for han, model in self._models.items():
            if model is None:
                continue
            below = model.middle - model.scores.means(found, offsets)
            of = (batch.han == han) & ~few
            gap[of] = below[of]
            deviations[of] = below[of] / model.deviation if model.deviation else np.inf
        return batch, {"gap": gap, "deviations": deviations,
                       "same_share": same_shares(batch.points, batch.starts, most)}

    def rules(self) -> Sequence[Rule]:
        """Look at runs of one character, then at improbable ones."""
        far = Rule("deviations", "improbable characters", most=self.config.max_deviations)
        return [Rule("same_share", "one character over and over", most=self.config.max_same_share),
                Rule("gap", "improbable characters", most=self.config.max_gap, also=far)]


def _learnt(both: Hashes) -> "Lookup":
    """Return log p(b | a); a pair that occurred once counts nothing, or texts would vouch for themselves."""
    from argosy.corpus.cleaning.kernels.filters.gibberish import Lookup

    keys, seen = np.unique(both, return_counts=True)
    firsts, inverse = np.unique(keys >> np.uint64(_SHIFT), return_inverse=True)
    size = np.bincount(inverse, weights=seen) + _SMOOTHING * len(firsts)
    unseen: Floats = np.log(_SMOOTHING / size)
    others = np.full(0x110000, unseen.min())
    others[firsts.astype(np.int64)] = unseen
    return Lookup(keys, np.log((seen - 1 + _SMOOTHING) / size[inverse]), others)
