"""Other wordings of a question that mean the same, by rules."""

import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

import yaml
from pydantic import Field

from evals.question import Draft
from evals.variants import NotApplicable, Variant

_SENTENCES = re.compile(r"(?<=[.?!:”\"])\s+(?=[A-Z])|\n+")
_BLANK = re.compile(r"_{2,}|＿+|\.{4,}")
_TASK = re.compile(
    r"^(use|find|select|construct|identify|determine|compute|solve|calculate|evaluate|let|choose|simplify|give|name"
    r"|express|factor|multiply|add|convert|suppose|statement|consider|write|round|estimate)\b|^[请求已若设]",
    re.IGNORECASE)
_DATA = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_WRAPS: dict[str, dict[str, list[str]]] = _DATA["wraps"]


class Pattern(NamedTuple):
    """A stem of a known wording, and its other wordings. `unless` matches where these would be wrong."""

    stem: re.Pattern[str]
    wordings: list[str]
    unless: re.Pattern[str] | None


def _pattern(given: dict[str, Any]) -> Pattern:
    unless = given.get("unless")
    return Pattern(_compiled(given["stem"]), given["wordings"], _compiled(unless) if unless else None)


def _compiled(text: str) -> re.Pattern[str]:
    for name, words in _DATA["words"].items():
        text = text.replace(f"{{{name}}}", words)
    return re.compile(text, re.DOTALL)


_STEMS = {lang: list(map(_pattern, given)) for lang, given in _DATA["stems"].items()}


def stems(question: str, lang: str) -> list[str]:
    """Word the last sentence (zh: the part that asks) otherwise; empty where no rule fits."""
    cuts = [cut.end() for cut in _SENTENCES.finditer(question)] if lang == "en" else []
    start = cuts[-1] if cuts else 0
    before, stem = question[:start], question[start:]
    found = []
    for pattern in _STEMS[lang]:
        match = pattern.stem.search(stem)
        if match and not (pattern.unless and pattern.unless.search(stem)):
            worded = [wording.format("", *match.groups()) for wording in pattern.wordings]
            found += [before + stem[: match.start()] + text[:1].upper() + text[1:] + stem[match.end() :]
                      for text in worded]
    return list(dict.fromkeys(found))


def wraps(question: str, lang: str) -> list[str]:
    """Put words that ask for an answer before the question."""
    asks = question.rstrip("”\"') ")[-1:] in tuple("?？.。!！") or "?" in question or "？" in question
    kind = "question" if asks else "sentence"
    if _TASK.search(question) or "\n" in question.strip():
        kind = "task"
    return [text.format(question) for text in _WRAPS[lang]["blank" if _BLANK.search(question) else kind]]


class Paraphrased(Variant):
    """`k` other wordings of the question, by rules that keep its meaning (evals/variants/paraphrased.py); 0: all.

    `kind: stem`: how it asks ("Which of the following is" -> "Of the following, which is", 下列 -> 以下); items
    whose stem no rule knows are left out. `wrap`: words before it ("Here is a question."). `any`: a stem where a rule
    fits, else a wrap. With `k` above 1, consistency tells whether the wording changes what a model chooses."""

    name = "paraphrased"
    open = True
    several = True
    k: int = Field(1, ge=0)
    kind: Literal["any", "stem", "wrap"] = "any"

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        found = [] if self.kind == "wrap" else stems(draft.question, draft.lang)
        if self.kind == "stem" and not found:
            raise NotApplicable("its stem is of no known pattern")
        rng.shuffle(found)
        if self.kind != "stem":
            around = wraps(draft.question, draft.lang)
            rng.shuffle(around)
            found += around
        return [replace(draft, question=question) for question in found[: self.k or None]]
