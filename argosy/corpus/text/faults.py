"""Faults of generated answers, found by rules without another model. See docs/evaluation.md.

A rule is a function below with the decorator `@_rule`, and has the function's name. It returns True where the fault is
there, and None where it does not apply (the answer is in another language or format), so that it counts in no share."""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from argosy.corpus.text.scripts import HAN, identify, is_han, normalise, words


@dataclass(frozen=True)
class Generated:
    """An answer of a model."""

    prompt: str
    """The user's words, without a chat template."""
    text: str
    """The answer, without the token that ended it."""
    ended: bool = True
    """Whether the model ended it itself; False: it was cut at the limit of tokens."""

    @cached_property
    def chinese(self) -> bool:
        """Whether the answer is Chinese by its characters."""
        return is_han(self.text)


Rule = Callable[[Generated], "bool | None"]
RULES: dict[str, Rule] = {}


def faults(generated: Generated) -> dict[str, bool]:
    """Whether the fault is there, for each rule that applies to this answer."""
    results = {name: rule(generated) for name, rule in RULES.items()}
    return {name: fault for name, fault in results.items() if fault is not None}


def _rule(function: Rule) -> Rule:
    RULES[function.__name__] = function
    return function


_HALF = re.compile(rf"(?<=[{HAN}])[,;:?!](?=\s*[{HAN}])|(?<=[{HAN}])\.(?=\s*(?:[{HAN}]|$))")
_FULL = re.compile("[，；：？！。、]")
_MOST_HALF = 0.2  # of all marks between Chinese characters


@_rule
def ascii_punctuation(generated: Generated) -> bool | None:
    """Find more than a fifth of half-width marks between Chinese characters, where GB/T 15834 has full-width ones."""
    if not generated.chinese:
        return None
    half, full = len(_HALF.findall(generated.text)), len(_FULL.findall(generated.text))
    return half / (half + full) > _MOST_HALF if half + full else None


_BROKEN = re.compile("[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


@_rule
def broken_characters(generated: Generated) -> bool:
    """Find pieces of UTF-8, control and private-use characters, which no text has.

    A replacement sign at the very end of an answer that was cut is no fault: its bytes went on."""
    text = generated.text if generated.ended else generated.text.rstrip("\ufffd")
    return _BROKEN.search(text) is not None


_LEAST_QUESTION = 12  # bytes (UTF-8) of a question that is more than a word or two


@_rule
def echo(generated: Generated) -> bool | None:
    """Find the whole question in the answer, but for case, width and punctuation; None of a very short question."""
    prompt = normalise(generated.prompt)
    return None if len(prompt.encode()) < _LEAST_QUESTION else prompt in normalise(generated.text)


@_rule
def empty(generated: Generated) -> bool:
    """Find an answer without a letter, digit or Han character."""
    return not words(generated.text)


_WANTS_JSON = re.compile(r"json", re.IGNORECASE)
_FENCED = re.compile(r"^```(?:json)?[^\S\n]*\n(.*?)\n?```$", re.DOTALL | re.IGNORECASE)


@_rule
def invalid_json(generated: Generated) -> bool | None:
    """Find an answer that is, also within its code fence, no JSON object or list; None where the prompt wants none."""
    if not _WANTS_JSON.search(generated.prompt):
        return None
    text = generated.text.strip()
    fenced = _FENCED.match(text)
    try:
        return not isinstance(json.loads(fenced[1] if fenced else text), dict | list)
    except (ValueError, RecursionError):
        return True


_GRAM = 4
_LEAST_WORDS = 16  # a shorter answer may well say four words twice
_MOST_REPEATED = 0.3  # share of 4-grams that were there before; prose of a page stays below a tenth
_TIMES = 4  # a period that ends the text this often is a loop, however long the text before it
_LEAST_PERIODIC = 12  # characters of such an end


@_rule
def loop(generated: Generated) -> bool:
    """Find repeated 4-grams of words (Han: characters), or an end that is one piece again and again.

    Greedy decoding of a weak model goes round in such circles (Holtzman et al. 2020)."""
    tokens = words(generated.text)
    if len(tokens) >= _LEAST_WORDS:
        grams = Counter(tokens[at : at + _GRAM] for at in range(len(tokens) - _GRAM + 1))
        if 1 - len(grams) / sum(grams.values()) > _MOST_REPEATED:
            return True
    return _periodic(generated.text.rstrip())


def _periodic(text: str) -> bool:
    """Whether the text ends in at least `_TIMES` copies of a piece, the last one cut off or not."""
    for size in range(1, len(text) // _TIMES + 1):
        length = max(_TIMES * size, _LEAST_PERIODIC)
        end = text[-length:]
        if len(end) == length and end[size:] == end[:-size] and any(c.isalnum() for c in end):
            return True
    return False


# Frequent characters that one script has and the other writes differently; those that both have are left out.
_SIMPLIFIED = frozenset("们这个来为时会对学说国过还发现实问题样间经进长开关让给应该动电话语书写车东门觉认识谁请谢买卖")
_TRADITIONAL = frozenset("們這個來為時會對學說國過還發現實問題樣間經進長開關讓給應該動電話語書寫車東門覺認識誰請謝買賣")
_LEAST_MIXED = 2  # of each: one alone may be a name


@_rule
def mixed_scripts(generated: Generated) -> bool | None:
    """Find simplified and traditional characters in one answer; None of an answer that is not Chinese."""
    if not generated.chinese:
        return None
    simplified = sum(c in _SIMPLIFIED - _TRADITIONAL for c in generated.text)
    traditional = sum(c in _TRADITIONAL - _SIMPLIFIED for c in generated.text)
    return simplified >= _LEAST_MIXED and traditional >= _LEAST_MIXED


_MARKS = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|<(start|end)_of_turn>"
    r"|^[^\S\n]*(###[^\S\n]*)?(user|assistant|human|system|用户|助手)\s*[:：]",
    re.IGNORECASE | re.MULTILINE)


@_rule
def special_tokens(generated: Generated) -> bool | None:
    """Find marks of a chat template, such as `<|im_end|>` or a line that begins as a turn does.

    The model imitates turns instead of ending its own. None where the prompt has such a mark itself."""
    return None if _MARKS.search(generated.prompt) else _MARKS.search(generated.text) is not None


@_rule
def unfinished(generated: Generated) -> bool:
    """Find an answer that was cut at the limit of tokens."""
    return not generated.ended


# A prompt that asks for another language, or for a program, gets one.
_WANTS_ANOTHER = re.compile(
    r"translat|翻译|译成|译为|in (english|chinese|french|german|spanish|japanese)|用(英|中|日|法|德)(文|语)"
    r"|code|代码|function|函数|python|sql|json|regex|正则",
    re.IGNORECASE)


@_rule
def wrong_language(generated: Generated) -> bool | None:
    """Find an answer in another language than the question; None where one cannot be told, or another is wanted."""
    if _WANTS_ANOTHER.search(generated.prompt):
        return None
    prompt, answer = identify(generated.prompt), identify(generated.text)
    return None if not prompt or not answer else prompt != answer
