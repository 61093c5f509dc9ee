"""Other wordings of a question that mean the same, by rules."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Literal

import yaml
from pydantic import Field

from evals.question import Draft
from evals.variants import NotApplicable, Variant

_AUXILIARIES = "is|are|was|were|would|will|can|could|should|must|may|might|does|did|has|had"
_VERBS = (
    f"{_AUXILIARIES}|do|have|best|most|least|correctly|accurately|describes?|explains?|represents?|refers?|contributes?|increases?|results?|shows?|contains?"
)
_OPEN_END = r"(?:ing|ed|called|like|used|for|to|of|in|by|with|from|about|do|be|on|at|have|known|mean)$"
_SENTENCES = re.compile(r"(?<=[.?!:”\"])\s+(?=[A-Z])|\n+")
_BLANK = re.compile(r"_{2,}|＿+|\.{4,}")
_TASK = re.compile(
    r"^(use|find|select|construct|identify|determine|compute|solve|calculate|evaluate|let|choose|simplify|give|name"
    r"|express|factor|multiply|add|convert|suppose|statement|consider|write|round|estimate)\b|^[请求已若设]",
    re.IGNORECASE,
)
_ZH_PLACE = r"\s*[（(]\s*[)）]\s*[。．.？?：:]?\s*$"
_ZH_BRACKET = r"\s*(?:[（(]\s*[)）])?\s*[。．.？?：:]?\s*$"
_ZH_SAYINGS = "说法|叙述|表述|判断|推断|分析|描述|结论|推测|解释|理解|概括|评价|组合|选项|做法"


@dataclass(frozen=True)
class Pattern:
    """A stem of a known wording, and its other wordings. `unless` matches where these would be wrong."""

    stem: re.Pattern[str]
    wordings: tuple[Callable[[re.Match[str]], str], ...]
    unless: re.Pattern[str] | None = None


def _request(match: re.Match[str]) -> str:
    """Word it as a request, where a clause begins with it; in the middle of one the same as a question."""
    before = match.string[: match.start()].rstrip()[-1:]
    if before and before not in "。．.；：，,\n":
        return f"以下{match[1]}{match[2]}中，哪一项是{match[3]}的？"
    return f"请在以下{match[1]}{match[2]}中找出{match[3]}的一项。"


EN = (
    # "Which of the following is true?" -> "Of the following, which is true?"
    Pattern(
        re.compile(rf"^Which (?:one )?of (the following|these) ((?:{_VERBS})\b.*)$", re.DOTALL),
        (lambda m: f"Of {m[1]}, which {m[2]}", lambda m: f"Among {m[1]}, which {m[2]}"),
    ),
    # "Which of the following old laws is true?" -> "Of the following old laws, which is true?"
    Pattern(
        re.compile(
            r"^Which (?:one )?of (the following|these) ((?:(?![a-z-]+s )[a-z-]+ ){0,3}[a-z-]+s) "
            rf"((?:{_AUXILIARIES})\b.*)$", re.DOTALL
        ),
        (lambda m: f"Of {m[1]} {m[2]}, which {m[3]}", lambda m: f"Among {m[1]} {m[2]}, which {m[3]}"),
        re.compile(rf"^Which (?:one )?of (?:the following|these) (?:{_VERBS})\b"),
    ),
    # "Which of the following statements best describes it?" -> "Of the following statements, which best describes it?"
    Pattern(
        re.compile(
            r"^Which (?:one )?of (the following|these) (statements|options|answers|choices|terms|sentences|theories) "
            r"((?:best|most [a-z]+ly|correctly|accurately) [a-z]+s\b.*)$", re.DOTALL
        ),
        (lambda m: f"Of {m[1]} {m[2]}, which {m[3]}", lambda m: f"Among {m[1]} {m[2]}, which {m[3]}"),
    ),
    # "According to Kant, what is ...?" -> "What is ..., according to Kant?"
    Pattern(
        re.compile(r"^According to ([^,?]{1,70}), ((?:what|which|who|how|why|where|when|in)\b[^?]*)\?$"),
        (lambda m: f"{m[2][:1].upper()}{m[2][1:]}, according to {m[1]}?",),
    ),
    # "What is the name of ...?" -> "State the name of ..."
    Pattern(
        re.compile(r"^What (?:is|was|are|were) (the (?:[\w-]+ ){1,4}?(?:of|for|between) [^?]+)\?$"),
        (lambda m: f"State {m[1]}.", lambda m: f"Give {m[1]}."),
        re.compile(rf"{_OPEN_END[:-1]}\?$|,| (?:if|when|that|which|most|best|likely)\b"),
    ),
    # "All of the following are fish EXCEPT" -> "Except for one, all of the following are fish. Which one is not?"
    Pattern(
        re.compile(r"^All (?:of )?(the following|these) ([^?]+?),? (?:EXCEPT|except)(?: for)?\s*[:.?]?$"),
        (lambda m: f"Except for one, all of {m[1]} {m[2]}. Which one is the exception?",),
    ),
)
ZH = (
    # 下列关于细胞的叙述，正确的是（ ） -> 在以下关于细胞的叙述中，哪一项是正确的？
    Pattern(
        re.compile(
            rf"(?:下列|以下|下面)([^，。；？\n]{{0,60}}?)({_ZH_SAYINGS})(?:中|里)?[，,]?\s*"
            rf"(不?正确|错误|不?合理|不?恰当|有误|不当|不?符合题意)的(?:一项)?是{_ZH_BRACKET}"
        ),
        (
            lambda m: f"以下{m[1]}{m[2]}中，哪一项是{m[3]}的？",
            _request,
        ),
        re.compile("有误的|不当的"),
    ),
    # 下列物质中，属于盐的是（ ） -> 以下物质中，属于盐的是（ ）
    Pattern(re.compile(r"下列(?!车)"), (lambda m: "以下", lambda m: "下面")),
    # 填入横线处最恰当的一项是（ ） -> 填入横线处最恰当的是哪一项？
    Pattern(
        re.compile(rf"(?<!目)的(一项|一句|一组|一个)?是{_ZH_PLACE}"),
        (lambda m: f"的是哪{m[1] or '一项'}？",),
    ),
    # 这一变化的主要原因是（ ） -> 这一变化的主要原因是什么？
    Pattern(
        re.compile(rf"(?:(?<=目的)|(?<![的还但不就也都项句组个]))(是|在于|反映了|反映出|体现了|说明了|表明了|说明|表明|因为|由于|意味着|有利于){_ZH_PLACE}"),
        (lambda m: f"{m[1]}什么？",),
    ),
)

_FILE = Path(__file__).with_suffix(".yaml")
_WRAPS: dict[str, dict[str, list[str]]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))


def stems(question: str, lang: str) -> list[str]:
    """Word the last sentence (zh: the part that asks) otherwise; empty where no rule fits."""
    cuts = [cut.end() for cut in _SENTENCES.finditer(question)] if lang == "en" else []
    start = cuts[-1] if cuts else 0
    before, stem = question[:start], question[start:]
    found = []
    for pattern in {"en": EN, "zh": ZH}[lang]:
        match = pattern.stem.search(stem)
        if match and not (pattern.unless and pattern.unless.search(stem)):
            found += [before + stem[: match.start()] + word(match) + stem[match.end() :] for word in pattern.wordings]
    return list(dict.fromkeys(found))


def wraps(question: str, lang: str) -> list[str]:
    """Put words that ask for an answer before the question."""
    asks = question.rstrip("”\"') ")[-1:] in tuple("?？.。!！") or "?" in question or "？" in question
    kind = "question" if asks else "sentence"
    if _TASK.search(question) or "\n" in question.strip():
        kind = "task"
    return [text.format(question) for text in _WRAPS[lang]["blank" if _BLANK.search(question) else kind]]


class Paraphrased(Variant):
    """`k` other wordings of the question, by rules that keep its meaning (evals/variants/paraphrased.py); 0: all
    there are.

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
