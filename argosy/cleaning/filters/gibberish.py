"""Drop text whose characters do not follow each other as the corpus's do.

A character-bigram model (Shannon 1948; for gibberish: Rennie's detector) is learnt from a sample of the
corpus itself, one for each script, and a text is judged by its mean log-probability per character against
the spread of the sample. Nothing is downloaded, and a corpus of another kind sets its own norm.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from argosy.cleaning.filter import Drop, Filter, FilterConfig, Resources
from argosy.cleaning.text import HAN, is_han
from argosy.documents.record import Document

if TYPE_CHECKING:
    import numpy.typing as npt

_SHIFT = 32
_SMOOTHING = 0.1
_LETTERS = {
    True: re.compile(f"[^{HAN}]+"),
    False: re.compile(r"[\W\d_]+"),
}


class GibberishConfig(FilterConfig):
    """`max_gap`: how many nats per character below the corpus's median a text may be (and `max_deviations`
    times the median deviation, if that is more); `min_sample_letters`: with less to learn from, all pass."""

    name: str = "gibberish"
    skip_channels: tuple[str, ...] = ("code",)
    max_gap: Annotated[float, Field(gt=0)] = 1.2
    max_deviations: Annotated[float, Field(gt=0)] = 6.0
    min_letters: Annotated[int, Field(ge=2)] = 20
    min_sample_letters: Annotated[int, Field(ge=1)] = 20_000
    look_at: Annotated[int, Field(ge=100)] = 4000
    max_same_share: Annotated[float, Field(gt=0, le=1)] = 0.6


class _Model:
    """log p(b | a) with what was seen once discounted to nothing: a text in the sample must not vouch for itself."""

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
        """Mean log-probability (nats) of a character given the one before; `letters` has at least 2."""
        import numpy as np

        pairs = _pairs(letters)
        at = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        first = np.minimum(np.searchsorted(self._firsts, pairs >> _SHIFT), len(self._firsts) - 1)
        unseen = np.where(self._firsts[first] == pairs >> _SHIFT, self._unseen[first], self._unknown)
        return float(np.where(self._pairs[at] == pairs, self._scores[at], unseen).mean())


def _pairs(text: str) -> npt.NDArray[Any]:
    """Neighbouring characters as one number each: uint64, (len(text) - 1,)."""
    import numpy as np

    codes = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32).astype(np.uint64)
    return codes[:-1] << _SHIFT | codes[1:]


class Gibberish(Filter[GibberishConfig]):
    """Drops random letters, key mashing, random Chinese characters and runs of one character."""

    config_class = GibberishConfig

    def __init__(self, config: GibberishConfig, resources: Resources) -> None:
        super().__init__(config, resources)
        texts = [d.text[: config.look_at] for d in resources.sample if d.channel not in config.skip_channels]
        self._models = {han: self._learn([t for t in texts if is_han(t) is han], han) for han in (True, False)}

    def _learn(self, texts: Sequence[str], han: bool) -> tuple[_Model, float] | None:
        cleaned = [_letters(text, han) for text in texts]
        cleaned = [text for text in cleaned if len(text) >= self.config.min_letters]
        if sum(map(len, cleaned)) < self.config.min_sample_letters:
            return None
        model = _Model(cleaned)
        scores = [model.score(text) for text in cleaned]
        middle = median(scores)
        deviation = median(abs(score - middle) for score in scores)
        return model, middle - max(self.config.max_gap, self.config.max_deviations * deviation)

    def __call__(self, document: Document) -> Document | Drop:
        text = document.text[: self.config.look_at]
        visible = "".join(text.split())
        if max(Counter(visible).values(), default=0) > self.config.max_same_share * len(visible):
            return Drop("one character over and over")
        han = is_han(text)
        learnt = self._models[han]
        letters = _letters(text, han)
        if learnt is None or len(letters) < self.config.min_letters:
            return document
        model, lowest = learnt
        return document if model.score(letters) >= lowest else Drop("improbable characters")


def _letters(text: str, han: bool) -> str:
    """Lower-case letters, everything else one space: digits and punctuation say little about gibberish."""
    return _LETTERS[han].sub(" ", text.lower()).strip()
