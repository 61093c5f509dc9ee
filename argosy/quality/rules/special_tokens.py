"""Marks of a chat template in the answer's text: the model imitates turns instead of ending its own."""

from __future__ import annotations

import re

from argosy.quality.rule import Generated

_MARKS = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|<(start|end)_of_turn>"
    r"|^\s*(###\s*)?(user|assistant|human|system|用户|助手)\s*[:：]",
    re.IGNORECASE | re.MULTILINE,
)


def fault(generated: Generated) -> bool | None:
    """A mark such as `<|im_end|>` or a line that begins as a turn does; None where the prompt has one itself."""
    return None if _MARKS.search(generated.prompt) else _MARKS.search(generated.text) is not None
