"""How answers begin: refusals, compliance and output formats, in English and Chinese."""

from __future__ import annotations

from typing import Literal

Language = Literal["en", "zh"]

REFUSALS: dict[Language, tuple[str, ...]] = {
    "en": ("I'm sorry", "I’m sorry", "I am sorry", "Sorry", "I can't", "I can’t", "I cannot", "I won't", "I won’t",
           "I'm not able to", "I'm unable to", "I am unable to", "I must decline", "As an AI", "Unfortunately"),
    "zh": ("抱歉", "很抱歉", "非常抱歉", "对不起", "我不能", "我无法", "不能", "无法", "不好意思", "作为一个",
           "作为一名", "作为AI", "作为人工智能", "我不会"),
}  # fmt: skip
COMPLIANCES: dict[Language, tuple[str, ...]] = {
    "en": ("Sure", "Of course", "Certainly", "Absolutely", "Yes", "Here", "To ", "First", "You can", "The ", "1.",
           "Step 1", "There are"),
    "zh": ("好的", "当然", "可以", "以下", "首先", "要", "您可以", "你可以", "没问题", "下面", "1.", "第一", "这"),
}  # fmt: skip
FORMATS: dict[str, tuple[str, ...]] = {
    "json": ("{", "[", "```json"),
    "list": ("1.", "1、", "- ", "* ", "•"),
    "code": ("```python", "```\n", "def ", "import "),
    "answer": ("The answer is", "Answer:", "答案是", "答案：", "答案为"),
}
