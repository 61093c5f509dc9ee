"""Keep the languages that are wanted; fill in the language where nobody has said."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from argosy.cleaning.filter import Drop, Filter, FilterConfig
from argosy.cleaning.language_id import identify
from argosy.cleaning.text import han_share
from argosy.documents.record import Document

_MIXED = 0.1  # Chinese about programs may be mostly English words, but no English text has so much Chinese


class LanguageConfig(FilterConfig):
    """`allowed`: languages to keep. A text too short or too plain to tell is kept as what it says it is."""

    name: str = "language"
    skip_channels: tuple[str, ...] = ("code",)
    allowed: Annotated[tuple[str, ...], Field(min_length=1)] = ("zh", "en")


class Language(Filter[LanguageConfig]):
    """Drops a document in a language that is not wanted, or not the one that it is declared to be in."""

    config_class = LanguageConfig

    def __call__(self, document: Document) -> Document | Drop:
        found = identify(document.text)
        if not found:
            return document
        if found not in self.config.allowed:
            return Drop(f"language {found}")
        if document.lang == "zh" and han_share(document.text) > _MIXED:
            return document
        if document.lang and found != document.lang:
            return Drop(f"declared {document.lang}, is {found}")
        return document if document.lang else replace(document, lang=found)
