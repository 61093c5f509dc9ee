"""Choices by hash, the same on every machine: held-out documents and records, seeds, permutations."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Any, TypeVar

R = TypeVar("R", bound=Mapping[str, Any])
_ROUNDS = 4  # of the Feistel network
CONVERSATIONS = ("instructions.jsonl", "instructions_heldout.jsonl", "twin.jsonl")  # the data step makes these
PREFERENCES = ("preferences.jsonl", "preferences_heldout.jsonl")
FEEDBACK = ("feedback.jsonl", "feedback_heldout.jsonl")  # where data.feedback names files
PROMPTS = ("prompts.jsonl",)
DATA_FILES = (*CONVERSATIONS, *PREFERENCES, *FEEDBACK, *PROMPTS, "facts.jsonl", "taught.jsonl",
              "benchmark/en.jsonl", "benchmark/zh.jsonl")


def hash_fraction(key: str) -> float:
    """Return a number in [0, 1) that is the same for the same key on every machine."""
    return int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest(), "big") / 2**64


def heldout_ids(ids: Iterable[str], share: float, least: int) -> frozenset[str]:
    """Return the ids whose hash is below `share`; at least `least` of them, but never more than half.

    A channel of few documents would have none by chance: then those of the smallest hashes are taken."""
    ranked = sorted((hash_fraction(key), key) for key in set(ids))
    count = sum(fraction < share for fraction, _ in ranked)
    count = min(max(count, least), max(count, len(ranked) // 2))
    return frozenset(key for _, key in ranked[:count])


def split_heldout(records: Sequence[R], share: float) -> tuple[list[R], list[R]]:
    """Return (training, held-out): `share` of the records, at least one, by the hash of their prompt.

    The same prompt is never on both sides. A single prompt stays in training."""
    keys = [_prompt_key(record) for record in records]
    heldout: set[bytes] = set()
    wanted, taken = max(1, round(share * len(records))), 0
    sizes = Counter(keys)
    for key in sorted(sizes)[: len(sizes) - 1]:
        if taken >= wanted:
            break
        heldout.add(key)
        taken += sizes[key]
    pairs = list(zip(keys, records, strict=True))
    return [r for key, r in pairs if key not in heldout], [r for key, r in pairs if key in heldout]


def _prompt_key(record: Mapping[str, Any]) -> bytes:
    messages = record.get("prompt") or record["messages"]
    question = next((m["content"] for m in messages if m["role"] == "user"), messages[0]["content"])
    return blake2b(str(question).encode(errors="surrogatepass"), digest_size=16).digest()


def derive_seed(*parts: object) -> int:
    """Derive a 64-bit seed from any printable parts; equal on every machine and Python version."""
    return int.from_bytes(sha256("\x1f".join(str(part) for part in parts).encode()).digest()[:8], "little")


def permuted_index(i: int, n: int, seed: int) -> int:
    """Return the place of position `i` of range(n) under the permutation that `seed` names.

    A balanced Feistel network over the next even power of two, walked along its cycle until it lands below `n`
    (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). At most four walks on average."""
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = i >> half, i & mask
        for round_number in range(_ROUNDS):
            left, right = right, left ^ (_mix(right + (round_number << 32), seed) & mask)
        i = (left << half) | right
        if i < n:
            return i


def choose_documents(channel: str, sizes: Sequence[int], budget: int, least: int = 1) -> list[int]:
    """Choose held-out documents of at least that size by index, in a fixed random order as far as they fit the budget;
    the shortest one where none does."""
    seed = derive_seed("heldout", channel)
    chosen, left = [], budget
    for position in range(len(sizes)):
        document = permuted_index(position, len(sizes), seed)
        if least <= sizes[document] <= left:
            chosen.append(document)
            left -= sizes[document]
        if left < least:
            break
    return sorted(chosen) or [min(range(len(sizes)), key=lambda i: sizes[i] if sizes[i] >= least else math.inf)]


def _mix(x: int, seed: int) -> int:
    """Apply SplitMix64's finalizer (Steele et al. 2014)."""
    z = (x * 0x9E3779B97F4A7C15 + seed) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return z ^ (z >> 31)
