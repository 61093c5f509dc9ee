"""Pseudo-random permutations of range(n) whose i-th element costs O(1) time and no memory."""

from __future__ import annotations

import hashlib

ROUNDS = 4


def derive_seed(*parts: object) -> int:
    """A 64-bit seed from any printable parts; equal on every machine and Python version."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def permuted_index(i: int, n: int, seed: int) -> int:
    """Where position `i` of range(n) goes under the permutation that `seed` names.

    A balanced Feistel network over the next even power of two, walked along its cycle until it lands below `n`
    (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). At most four walks on average.
    """
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = i >> half, i & mask
        for round_number in range(ROUNDS):
            left, right = right, left ^ (_mix(right + (round_number << 32), seed) & mask)
        i = (left << half) | right
        if i < n:
            return i


def _mix(x: int, seed: int) -> int:
    """SplitMix64's finalizer (Steele et al. 2014)."""
    z = (x * 0x9E3779B97F4A7C15 + seed) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return z ^ (z >> 31)
