"""Simplified and traditional characters in one answer."""

from __future__ import annotations

from argosy.quality.rule import Generated

# Frequent characters that one script has and the other writes differently; those that both have are left out.
SIMPLIFIED = frozenset("们这个来为时会对学说国过还发现实问题样间经进长开关让给应该动电话语书写车东门觉认识谁请谢买卖")
TRADITIONAL = frozenset("們這個來為時會對學說國過還發現實問題樣間經進長開關讓給應該動電話語書寫車東門覺認識誰請謝買賣")
LEAST = 2  # of each: one alone may be a name


def fault(generated: Generated) -> bool | None:
    """At least two characters of each; None of an answer that is not Chinese."""
    if not generated.chinese:
        return None
    simplified = sum(c in SIMPLIFIED - TRADITIONAL for c in generated.text)
    traditional = sum(c in TRADITIONAL - SIMPLIFIED for c in generated.text)
    return simplified >= LEAST and traditional >= LEAST
