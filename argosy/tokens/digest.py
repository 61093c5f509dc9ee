"""Which tokenizer token ids are of: two of one size may have other tokens, or cut a text otherwise."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

# What tokenizers differ in: letter case, contractions, digits, spaces, scripts, a decomposed and a full-width letter.
SAMPLE = (
    "The river's 1,024 tributaries  don't FREEZE;\n\tname_of(x) == 'é'. e\u0301 ① Ａ "
    "长江流经11个省，naïve 東京 Ж 🙂\n\n"
)


def tokenizer_digest(vocabulary: Mapping[str, int], sample: Sequence[int]) -> str:
    """SHA-256 of every token with its id, and of how `SAMPLE` is cut: the same for a tokenizer as the tokenizers
    library has it and as transformers saves and loads it.

    Args:
        vocabulary: id by token, added tokens among them.
        sample: ids of `SAMPLE`, without BOS and EOS.
    """
    described = json.dumps([sorted(vocabulary.items()), list(sample)], separators=(",", ":"))
    return hashlib.sha256(described.encode()).hexdigest()
