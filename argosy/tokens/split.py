"""Which documents are held out: decided by the hash of the id, so that more data never moves one over."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b


def hash_fraction(key: str) -> float:
    """A number in [0, 1) that is the same for the same key on every machine."""
    return int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest(), "big") / 2**64


def heldout_ids(ids: Iterable[str], share: float, least: int) -> frozenset[str]:
    """Ids whose hash is below `share`; at least `least` of them, but never more than half.

    A channel of few documents would have none by chance: then those of the smallest hashes are taken.
    """
    ranked = sorted((hash_fraction(key), key) for key in set(ids))
    count = sum(fraction < share for fraction, _ in ranked)
    count = min(max(count, least), max(count, len(ranked) // 2))
    return frozenset(key for _, key in ranked[:count])
