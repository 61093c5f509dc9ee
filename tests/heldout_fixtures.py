"""A tokenize step's files for any tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def write_tokens(root: Path, tokenizer: Any, splits: Mapping[str, Mapping[str, Sequence[str]]]) -> Path:
    """`splits`: texts by channel by split. Documents are BOS, text, EOS."""
    channels: dict[str, Any] = {}
    for split, by_channel in splits.items():
        (root / split).mkdir(parents=True, exist_ok=True)
        for channel, texts in by_channel.items():
            ids = [[tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"],
                    tokenizer.eos_token_id] for text in texts]  # fmt: skip
            np.array([token for each in ids for token in each], dtype=np.uint16).tofile(root / split / f"{channel}.bin")
            np.save(root / split / f"{channel}.offsets.npy", np.cumsum([0, *map(len, ids)]))
            np.save(root / split / f"{channel}.bytes.npy", np.array([len(text.encode()) for text in texts]))
            about = {"tokens": sum(map(len, ids)), "documents": len(ids), "bytes": sum(len(t.encode()) for t in texts)}
            channels.setdefault(channel, {})[split] = about
    index = {"dtype": "uint16", "vocab_size": len(tokenizer), "channels": channels}
    (root / "index.json").write_text(json.dumps(index))
    return root
