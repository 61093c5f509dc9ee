"""What a question was, in a few letters, so that two checkpoints are compared on the same ones alone."""

from __future__ import annotations

import hashlib
import json

ASKED = "asked"  # the key of a row that has it


def digest(*parts: object) -> str:
    """8 hexadecimal digits (SHA-256) of texts, numbers and lists of them: of two that differ, equal once in 4 billion.

    What a chat template puts around a question is no part of it: a base model and its tuned one are asked the same.
    """
    text = json.dumps(parts, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
