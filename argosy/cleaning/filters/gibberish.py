"""Removal of text whose characters do not follow each other as the corpus's do.

A character-bigram model (Shannon 1948; for gibberish: Rennie's detector) is learnt from a sample of the
corpus itself, one for each script, and a text is judged by its mean log-probability per character against
the spread of the sample. Nothing is downloaded, and a corpus of another kind sets its own norm."""

import re
from collections.abc import Sequence
from math import inf, nan
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from argosy.cleaning.batch import Batch
from argosy.cleaning.filter import Filter, FilterConfig, Resources, Rule, Scores
from argosy.text.scripts import HAN, is_han

if TYPE_CHECKING:
    import numpy.typing as npt

_SHIFT = 32
_SMOOTHING = 0.1
_LETTERS = {
    True: re.compile(f"[^{HAN}]+"),
    False: re.compile(r"[\W\d_]+"),
}


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
    """With fewer letters to learn from, all texts pass."""
    look_at: Annotated[int, Field(ge=100)] = 4000
    """Characters of a text that are scored."""
    max_same_share: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Share of its visible characters that may be one and the same."""


class _Model:
    """Probabilities log p(b | a); a pair that occurred once counts nothing, or texts would vouch for themselves."""

    def __init__(self, texts: Sequence[str]) -> None:
        import numpy as np

        pairs = np.concatenate([_pairs(text) for text in texts])
        self._pairs, seen = np.unique(pairs, return_counts=True)
        self._firsts, inverse = np.unique(self._pairs >> _SHIFT, return_inverse=True)
        size = np.bincount(inverse, weights=seen) + _SMOOTHING * len(self._firsts)
        self._scores = np.log((seen - 1 + _SMOOTHING) / size[inverse])
        self._unseen = np.log(_SMOOTHING / size)
        self._unknown = float(self._unseen.min())

    def score(self, letters: str) -> float:
        """Return the mean log-probability (nats) of a character given the one before; `letters` has at least 2."""
        import numpy as np

        pairs = _pairs(letters)
        at = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        first = np.minimum(np.searchsorted(self._firsts, pairs >> _SHIFT), len(self._firsts) - 1)
        unseen = np.where(self._firsts[first] == pairs >> _SHIFT, self._unseen[first], self._unknown)
        return float(np.where(self._pairs[at] == pairs, self._scores[at], unseen).mean())


def _pairs(text: str) -> "npt.NDArray[Any]":
    """Return neighbouring characters as one number each: uint64, (len(text) - 1,)."""
    import numpy as np

    codes = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32).astype(np.uint64)
    return codes[:-1] << _SHIFT | codes[1:]


class Gibberish(Filter[GibberishConfig]):
    """A filter that drops random letters, key mashing, random Chinese characters and runs of one character.

    Scores: `gap`, nats a character below the median of the sample; `deviations`, the same in median deviations;
    `same_share`, of the visible characters that are one and the same."""

    config_class = GibberishConfig
    scoring: ClassVar[tuple[str, ...]] = ("min_letters", "min_sample_letters", "look_at")

    def __init__(self, config: GibberishConfig, resources: Resources) -> None:
        super().__init__(config, resources)
        texts = [d.text[: config.look_at] for d in resources.sample if d.channel not in config.skip_channels]
        self._models = {han: self._learn([t for t in texts if is_han(t) is han], han) for han in (True, False)}

    def _learn(self, texts: Sequence[str], han: bool) -> tuple[_Model, float, float] | None:
        cleaned = [_letters(text, han) for text in texts]
        cleaned = [text for text in cleaned if len(text) >= self.config.min_letters]
        if sum(map(len, cleaned)) < self.config.min_sample_letters:
            return None
        model = _Model(cleaned)
        scores = [model.score(text) for text in cleaned]
        middle = median(scores)
        return model, middle, median(abs(score - middle) for score in scores)

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        """Score the first characters of each text."""
        import numpy as np

        texts = [text[: self.config.look_at] for text in batch.texts]
        gaps = np.array([self._gap(text) for text in texts], np.float64).reshape(-1, 2)
        return batch, {"gap": gaps[:, 0], "deviations": gaps[:, 1],
                       "same_share": np.array([_same_share(text) for text in texts], np.float64)}

    def _gap(self, text: str) -> tuple[float, float]:
        """Return how far a text is below the median: in nats, and in median deviations."""
        han = is_han(text)
        learnt, letters = self._models[han], _letters(text, han)
        if learnt is None or len(letters) < self.config.min_letters:
            return nan, nan
        model, middle, deviation = learnt
        gap = middle - model.score(letters)
        return gap, gap / deviation if deviation else inf

    def rules(self) -> Sequence[Rule]:
        """Look at runs of one character, then at improbable ones."""
        far = Rule("deviations", "improbable characters", most=self.config.max_deviations)
        return [Rule("same_share", "one character over and over", most=self.config.max_same_share),
                Rule("gap", "improbable characters", most=self.config.max_gap, also=far)]


def _same_share(text: str) -> float:
    visible = "".join(text.split())
    return max(map(visible.count, set(visible))) / len(visible) if visible else 0.0


def _letters(text: str, han: bool) -> str:
    """Keep lower-case letters, everything else one space: digits and punctuation say little about gibberish."""
    return _LETTERS[han].sub(" ", text.lower()).strip()
