"""How labels stand in a text; what the rules for labels share."""

from __future__ import annotations

import re

# What announces an answer, and what may stand between it and the label.
STATED = (
    r"(?:(?i:answers?\s+(?:is|are)|answers?\s*[:：]|options?|choose|pick|select)|\\boxed\s*\{"
    r"|答案\s*(?:应?[是为选])?|故选|应选|选择|选)"
)
OPEN = r"[\s:：*\"'“‘(（\[【{$]*"


def label(labels: str, *, alone: bool) -> str:
    """A pattern of one of `labels` that no letter or ideograph of a word follows, and `alone`: nor precedes."""
    latin = "".join(one for one in labels if one.isascii() and one.isalnum())
    words = "".join(one for one in labels if not one.isascii() and one.isalnum())
    marks = "".join(one for one in labels if not one.isalnum())
    # "A dog" is no label, also after "Answer:"; nor is "I think". "A because" is one.
    articles = "".join(one for one in "AI" if one in latin)
    goes_on = r"(?!(?:because|since|as|and|or|is|but)\b)"
    article = rf"(?![{articles}]\s+{goes_on}[A-Za-z])" if articles else ""
    before_latin, before_word = (r"(?<![A-Za-z0-9])", r"(?<!\w)") if alone else ("", "")
    parts = [rf"{before_latin}{article}[{latin}](?![A-Za-z0-9'’])"] if latin else []
    parts += [rf"{before_word}[{words}](?!\w)"] if words else []
    parts += [f"[{re.escape(marks)}]"] if marks else []
    return f"(?:{'|'.join(parts)})"
