"""Removal of the lines that web pages repeat (menus, cookie notices, copyright) and of surplus space.

The line rules go back to C4 (Raffel et al. 2020) and RefinedWeb (Penedo et al. 2023): lines go, and
a document of which little is left goes too."""

import re
from dataclasses import replace
from functools import cache
from typing import Annotated

from pydantic import Field

from argosy.cleaning.filter import Drop, Filter, FilterConfig, Resources, read_words
from argosy.data.schemas import Document

_BLANK_LINES = re.compile(r"\n{3,}")
_TRAILING = re.compile(r"[ \t\u3000]+$", re.MULTILINE)
_MENU_ITEMS = re.compile(r"\s*[|·•>»/,，、\t]\s*|\s{2,}|[:：]\s*")


class BoilerplateConfig(FilterConfig):
    """Thresholds of boilerplate."""

    name: str = "boilerplate"
    skip_channels: tuple[str, ...] = ("code",)
    max_line_characters: Annotated[int, Field(ge=1)] = 200
    """Longer lines stay."""
    min_kept_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the text below which the document goes."""


class Boilerplate(Filter[BoilerplateConfig]):
    """A filter that drops lines by `words/boilerplate.txt` and `words/menu.txt`, and trims surplus space."""

    config_class = BoilerplateConfig

    def __init__(self, config: BoilerplateConfig, resources: Resources) -> None:
        super().__init__(config, resources)
        self._patterns = _patterns()
        self._menu = frozenset(word.lower() for word in read_words("menu.txt"))

    def __call__(self, document: Document) -> Document | Drop:
        lowered = document.text.lower()
        patterns = [pattern for word, pattern in self._patterns if word in lowered]
        lines = document.text.split("\n")
        kept = [line for line in lines if not (self._is_menu(line) or self._is_boilerplate(line, patterns))]
        text = document.text if len(kept) == len(lines) else "\n".join(kept)
        if len(text.strip()) < self.config.min_kept_share * len(document.text.strip()):
            return Drop("mostly boilerplate")
        text = _BLANK_LINES.sub("\n\n", _TRAILING.sub("", text)).strip("\n")
        return document if text == document.text else replace(document, text=text)

    def _is_boilerplate(self, line: str, patterns: list[re.Pattern[str]]) -> bool:
        return len(line) <= self.config.max_line_characters and any(pattern.search(line) for pattern in patterns)

    def _is_menu(self, line: str) -> bool:
        """Whether all items of the line are menu entries; from four on, one may be the page's own."""
        if not line or len(line) > self.config.max_line_characters:
            return False
        items = [item for item in _MENU_ITEMS.split(line.strip(" |·•>»/\t\u3000").lower()) if item]
        entries = sum(item in self._menu for item in items)
        return entries > 0 and entries >= len(items) - (len(items) >= 4)


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Read (word that a line must hold, pattern that must match in it)."""
    pairs = (line.split("\t") for line in read_words("boilerplate.txt"))
    return tuple((word, re.compile(pattern, re.IGNORECASE)) for word, pattern in pairs)
