"""Removal of copies: documents whose text differs at most in case, width, punctuation and space."""

from hashlib import blake2b

from argosy.cleaning.filter import Drop, Filter, FilterConfig, Resources
from argosy.data.schemas import Document
from argosy.text.scripts import normalise


class ExactDedupConfig(FilterConfig):
    """Config without thresholds."""

    name: str = "exact_dedup"


class ExactDedup(Filter[ExactDedupConfig]):
    """A filter that keeps the first of each text, by a 128-bit hash: 100 bytes of memory a document."""

    config_class = ExactDedupConfig

    def __init__(self, config: ExactDedupConfig, resources: Resources) -> None:
        super().__init__(config, resources)
        self._keys: set[bytes] = set()

    def __call__(self, document: Document) -> Document | Drop:
        # A text of symbols alone has an empty normal form: compare it as it is.
        key = blake2b((normalise(document.text) or document.text).encode(), digest_size=16).digest()
        if key in self._keys:
            return Drop("copy of an earlier document")
        self._keys.add(key)
        return document
