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
# Of a judge that writes its reply, and may reason first.
_TIE = {"en": ", or C if they are equally good", "zh": "；如果一样好，回复 C"}
_REASON = {
    "en": ' If you have to reason first, end with a line "Verdict: " and the letter.',
    "zh": "需要先分析的话，最后一行写“结论：”和这个字母。",
}
# A letter inside a sentence is no verdict: "A is worse than B" ends in B and means B, "A is better than B" does not.
_BARE = re.compile(r"[\W_]*([ABC])[\W_]*")
_SAID = re.compile(
    r"\W*(?:the )?(?:final )?(?:verdict|answer|choice|结论|答案|判断)(?: is|是|为)?[\W_]*([ABC])[\W_]*", re.IGNORECASE
)
_PREFERENCE = {"A": 1.0, "B": 0.0, "C": 0.5}


def question(comparison: Comparison, *, writes: bool) -> str:
    """The judge's prompt. One that `writes` its verdict may call the answers equal, and say why first."""
    lang = "zh" if is_han(comparison.prompt) else "en"
    text = {"en": _EN, "zh": _ZH}[lang].format(
        prompt=comparison.prompt,
        first=comparison.first.strip(),
        second=comparison.second.strip(),
        tie=_TIE[lang] if writes else "",
    )
    return text + (_REASON[lang] if writes else "")


def read_verdict(reply: str) -> float | None:
    """1.0 for A, 0.0 for B, 0.5 for C: of a reply that is the letter alone, or whose last line is the letter or says
    the verdict as it was asked for. None for any other reply, whatever letters it has."""
    lines = [line for line in reply.splitlines() if line.strip()]
    said = (_BARE.fullmatch(lines[-1]) or _SAID.fullmatch(lines[-1])) if lines else None
    return _PREFERENCE[said[1].upper()] if said else None
