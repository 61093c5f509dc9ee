"""Removal of near copies: MinHash of word shingles (Broder 1997) and locality-sensitive hashing.

Two documents become candidates if one band of their signatures is equal, and count as near copies if the
signatures agree in `similarity` of their hashes, which estimates the Jaccard index of their shingles. Bands
and rows as in FineWeb (Penedo et al. 2024) by default: 14 bands of 8."""

from typing import TYPE_CHECKING, Annotated, Any
from zlib import crc32

from pydantic import Field

from argosy.cleaning.filter import Drop, Filter, FilterConfig, Resources
from argosy.data.schemas import Document
from argosy.text.scripts import words

if TYPE_CHECKING:
    import numpy.typing as npt

_SEED = 20_121  # of the hash functions: fixed, so that signatures are the same everywhere


class NearDedupConfig(FilterConfig):
    """Size of the signatures, and the similarity of copies."""

    name: str = "near_dedup"
    similarity: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Share of equal hashes from which on two documents are copies."""
    shingle: Annotated[int, Field(ge=1)] = 5
    """Words of a shingle (a Han character is a word); shorter documents pass."""
    bands: Annotated[int, Field(ge=1)] = 14
    """Bands of a signature, one of which equal copies share."""
    rows: Annotated[int, Field(ge=1)] = 8
    """Hashes of a band."""


class NearDedup(Filter[NearDedupConfig]):
    """A filter that keeps the first of each group of near copies."""

    config_class = NearDedupConfig

    def __init__(self, config: NearDedupConfig, resources: Resources) -> None:
        super().__init__(config, resources)
        import numpy as np

        count = config.bands * config.rows
        random = np.random.Generator(np.random.PCG64(_SEED))
        self._factors = random.integers(0, 2**63, size=count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        self._offsets = random.integers(0, 2**63, size=count, dtype=np.uint64)
        self._buckets: list[dict[bytes, list[int]]] = [{} for _ in range(config.bands)]
        self._signatures: list[npt.NDArray[Any]] = []

    def __call__(self, document: Document) -> Document | Drop:
        shingles = shingle_hashes(document.text, self.config.shingle)
        if not len(shingles):
            return document
        signature = self.signature(shingles)
        keys = [band.tobytes() for band in signature.reshape(self.config.bands, self.config.rows)]
        candidates = {index for bucket, key in zip(self._buckets, keys, strict=True) for index in bucket.get(key, ())}
        if any((signature == self._signatures[i]).mean() >= self.config.similarity for i in candidates):
            return Drop("near copy of an earlier document")
        for bucket, key in zip(self._buckets, keys, strict=True):
            bucket.setdefault(key, []).append(len(self._signatures))
        self._signatures.append(signature)
        return document

    def signature(self, shingles: "npt.NDArray[Any]") -> "npt.NDArray[Any]":
        """Return the least value of each hash function over the shingles: uint32, (bands * rows,).

        Multiply-shift hashing (Dietzfelbinger et al. 1997), in blocks that fit a processor's cache."""
        import numpy as np

        least = np.full(len(self._factors), np.iinfo(np.uint64).max, dtype=np.uint64)
        for start in range(0, len(shingles), 256):
            block = shingles[start : start + 256, None] * self._factors + self._offsets
            np.minimum(least, block.min(axis=0), out=least)
        return (least >> np.uint64(32)).astype(np.uint32)


def shingle_hashes(text: str, size: int) -> "npt.NDArray[Any]":
    """Return distinct 64-bit hashes of the text's shingles of `size` words; empty if it has fewer words."""
    import numpy as np

    tokens = np.fromiter((crc32(word.encode()) for word in words(text)), dtype=np.uint64)
    count = len(tokens) - size + 1
    if count < 1:
        return np.empty(0, dtype=np.uint64)
    hashes = np.zeros(count, dtype=np.uint64)
    for i in range(size):
        hashes = (hashes ^ tokens[i : i + count]) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    return np.unique(hashes)
