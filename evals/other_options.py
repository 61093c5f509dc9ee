"""Items whose text speaks of their own options ("all of the above", "both A and C"): what variants must not break."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OPTION = re.compile(
    r"\b(all|none|neither|both|any|either|each|two|some)\b[^.]{0,20}\b(above|below|these|those|them|others?|following|options|choices|answers)\b"
    r"|\bof the (above|others)\b|^(all|none|neither|both)\.?$"
    r"|\b(both|neither|either|only|and|or)\s+\(?[A-J]\)?(\s*(and|or|nor|,|&|\.|$))"
    r"|^\(?[A-J]\)?\s*(and|or|&|,)\s*\(?[A-J]\)?\.?$"
    r"|以上|上述|都对|都不对|都正确|都错|全错|全对|皆是|皆非|均(是|不|对|正确|错)"
    r"|[A-J]\s*[和与或、]\s*[A-J]",
    re.IGNORECASE,
)
_STEM = re.compile(
    r"\b(which|one|what|select|choose)\b[^?]{0,40}\b(following|these|below|options?|choices|statements?)\b"
    r"|\bexcept\b|以下|下列|下面|哪一?项|哪个选项",
    re.IGNORECASE,
)


def options_refer_to_options(choices: Sequence[str]) -> bool:
    """Whether an option is about other options or their labels, so that dropping or moving one changes its truth."""
    return any(_OPTION.search(choice) for choice in choices)


def refers_to_options(question: str, choices: Sequence[str]) -> bool:
    """Whether the question cannot be answered without seeing the options, or an option is about others."""
    return bool(_STEM.search(question)) or options_refer_to_options(choices)
