"""The languages that people read: a catalogue of translations by English text, and the choice of one.

A catalogue is a file of gettext's form. `{0}`, `{1}`, ... in a text stand for what differs from time to time, `{0n}`
for a number, `{0w}` for a word, `{0l}` for a short list. What has no translation stays English."""

import ast
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from argosy.core.errors import InputError

LANGUAGES = ("en", "zh")
HOLE = re.compile(r"\{(\d)([nwl]?)\}")
_HOLES = {"": ".+?", "n": r"[-+<]?[\d.,]*\d(?:e[-+]?\d+)?[kMBT]?(?: %)?", "w": r"[^\s,;:()]+", "l": "[^;:()]{1,60}"}
_compiled = cache(re.compile)  # more than Python's own cache holds
_CUTS = ((re.compile(r"(?<=[.!?]) (?=[A-Za-z“▲])"), ""), (re.compile(r"; (?![^()]*\))"), "；"))  # sentences, clauses


class Catalogue:
    """Translations of whole texts, of their sentences, and of clauses between semicolons; empty for English.

    argosy/evidence/report/templates/language.js does the same in a browser."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self.exact = {text: said for text, said in texts.items() if not HOLE.search(text)}
        ordered = sorted(texts.keys() - self.exact.keys(), key=lambda text: (-len(HOLE.sub("", text)), text))
        self.patterns = [(_pattern(text), texts[text]) for text in ordered]

    def __call__(self, text: str) -> str:
        """Translate a text; return it as it is where that is not known."""
        if text in self.exact or not self.exact:
            return self.exact.get(text, text)
        for cut, joint in _CUTS:
            parts = cut.split(text)
            if parts[1:] and (said := [*map(self, parts)]) != parts:
                return joint.join(said)
        if text.endswith(".") and (known := self(text[:-1])) != text[:-1]:
            return f"{known}。"
        for pattern, whole in self.patterns:
            if found := _compiled(pattern, re.DOTALL).match(text):
                values = [*map(self, found.groups())]
                return HOLE.sub(lambda hole, values=values: values[int(hole[1])], whole)  # type: ignore[misc]
        return text


def _pattern(text: str) -> str:
    """Write the expression that a text with holes matches, in the order of their numbers, for Python and JavaScript."""
    first, *rest = HOLE.split(text)
    return f"^{re.escape(first)}" + "".join(f"({_HOLES[kind]}){re.escape(literal)}"
                                            for kind, literal in zip(rest[1::3], rest[2::3], strict=True)) + "$"


def catalogue(name: str, language: str = "zh") -> Catalogue:
    """Read the translations `NAME.LANGUAGE.po`; there are none into English."""
    texts: list[str] = []
    file = Path(__file__).parent / f"translations/{name}.{language}.po"
    for line in file.read_text(encoding="utf-8").splitlines() if language != "en" else ():
        word, quote, rest = line.partition('"')
        texts += [""] if word in ("msgid ", "msgstr ") else []
        if quote and not word.startswith("#"):
            texts[-1] += ast.literal_eval(quote + rest)
    return Catalogue({each: said for each, said in zip(texts[::2], texts[1::2], strict=True) if each and said})


def language() -> str:
    """Choose the terminal's language: ARGOSY_LANG, else the locale's. Raises InputError: ARGOSY_LANG is another."""
    asked = os.environ.get("ARGOSY_LANG", "")
    found = asked or next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
    found = re.split(r"[_.@-]", found.lower())[0]
    if asked and found not in LANGUAGES:
        raise InputError(f"ARGOSY_LANG is {asked!r}, allowed: {', '.join(LANGUAGES)}")
    return found if found in LANGUAGES else "en"
