"""Characters that no text has: pieces of UTF-8, control and private-use characters."""

from __future__ import annotations

import re

from argosy.quality.rule import Generated

_BROKEN = re.compile("[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def fault(generated: Generated) -> bool:
    """There is one. A replacement sign at the very end of an answer that was cut is no fault: its bytes went on."""
    text = generated.text if generated.ended else generated.text.rstrip("\ufffd")
    return _BROKEN.search(text) is not None
