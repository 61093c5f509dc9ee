"""What a judge is asked, in the language of the prompt."""

from __future__ import annotations

import re

from argosy.cleaning.text import is_han
from argosy.judging.comparison import Comparison

_EN = """Two assistants answered the same request. Decide which answer helps the user more: it is right, it does what \
was asked, and it is clear. Do not prefer an answer for its length or for the place where it stands.

[Request]
{prompt}

[Answer A]
{first}

[Answer B]
{second}

Which answer is better? Reply with one letter, A or B{tie}."""
_ZH = """两个助手回答了同一个请求。请判断哪个回答对用户更有帮助：内容正确，按要求作答，表达清楚。\
不要因为回答较长或位置在前而偏向它。

【请求】
{prompt}

【回答A】
{first}

【回答B】
{second}

哪个回答更好？只回复一个字母：A 或 B{tie}。"""
_TIE = {"en": ", or C if they are equally good", "zh": "；如果一样好，回复 C"}
# Models that reason first say their verdict last; a bare letter may stand in marks or brackets.
_LETTER = re.compile(r"(?<![A-Za-z])([ABC])(?![A-Za-z])")
_PREFERENCE = {"A": 1.0, "B": 0.0, "C": 0.5}


def question(comparison: Comparison, *, tie: bool) -> str:
    """The judge's prompt; with `tie` it may call them equal."""
    lang = "zh" if is_han(comparison.prompt) else "en"
    text = {"en": _EN, "zh": _ZH}[lang]
    return text.format(prompt=comparison.prompt, first=comparison.first.strip(), second=comparison.second.strip(),
                       tie=_TIE[lang] if tie else "")  # fmt: skip


def read_verdict(reply: str) -> float | None:
    """1.0 for A, 0.0 for B, 0.5 for C; None where the reply has no letter. The last one counts."""
    letters = _LETTER.findall(reply)
    return _PREFERENCE[letters[-1]] if letters else None
