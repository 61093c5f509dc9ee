"""Removal of unwanted languages; the language is filled in where nobody has said."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from argosy.cleaning.filter import Drop, Filter, FilterConfig
from argosy.data.schemas import Document
from argosy.text.scripts import han_share, identify

_MIXED = 0.1  # Chinese about programs may be mostly English words, but no English text has so much Chinese


class LanguageConfig(FilterConfig):
    """The languages to keep."""

    name: str = "language"
    skip_channels: tuple[str, ...] = ("code",)
    allowed: Annotated[tuple[str, ...], Field(min_length=1)] = ("zh", "en")
    """Languages to keep. A text too short or too plain to tell is kept as what it says it is."""


class Language(Filter[LanguageConfig]):
    """A filter that drops a document in a language that is not wanted, or not the one that it is declared to be in."""

    config_class = LanguageConfig

    def __call__(self, document: Document) -> Document | Drop:
        lang = identify(document.text)
        if not lang:
            return document
        if lang not in self.config.allowed:
            return Drop(f"language {lang}")
        if document.lang == "zh" and han_share(document.text) > _MIXED:
            return document
        if document.lang and lang != document.lang:
            return Drop(f"declared {document.lang}, is {lang}")
        return document if document.lang else replace(document, lang=lang)
