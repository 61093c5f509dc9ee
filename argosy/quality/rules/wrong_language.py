"""An answer in another language than the question."""

from __future__ import annotations

import re

from argosy.cleaning.language_id import identify
from argosy.quality.rule import Generated

# Who asks for another language, or for a program, gets one.
_ASKED = re.compile(
    r"translat|翻译|译成|译为|in (english|chinese|french|german|spanish|japanese)|用(英|中|日|法|德)(文|语)"
    r"|code|代码|function|函数|python|sql|json|regex|正则",
    re.IGNORECASE,
)


def fault(generated: Generated) -> bool | None:
    """The main languages differ; None where one cannot be told, or another one was asked for."""
    if _ASKED.search(generated.prompt):
        return None
    asked, given = identify(generated.prompt), identify(generated.text)
    return None if not asked or not given else asked != given
