"""Repair of misread encodings and normal forms of characters; texts beyond repair go."""

import html
import re
import unicodedata
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from argosy.cleaning.filter import Drop, Filter, FilterConfig
from argosy.data.schemas import Document
from argosy.text.repair import lost_characters, repair

_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufff9-\ufffb]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{2,6}|#x[0-9a-fA-F]{2,6});")


class UnicodeConfig(FilterConfig):
    """Threshold of damage."""

    name: str = "unicode"
    max_broken_share: Annotated[float, Field(ge=0, le=1)] = 0.005
    """Largest share of lost or private-use characters."""


class Unicode(Filter[UnicodeConfig]):
    """A filter for mojibake, HTML entities, NFC, one kind of newline, no control or invisible characters."""

    config_class = UnicodeConfig

    def __call__(self, document: Document) -> Document | Drop:
        text = document.text.replace("\r\n", "\n").replace("\r", "\n")
        text = repair(text)
        if "<" not in text:  # in markup an entity is meant (ftfy's rule)
            text = _ENTITY.sub(lambda match: html.unescape(match.group()), text)
        text = _INVISIBLE.sub("", _CONTROL.sub("", unicodedata.normalize("NFC", text)))
        broken = lost_characters(text) + len(_PRIVATE.findall(text))
        if not text.strip():
            return Drop("no visible character")
        if broken > self.config.max_broken_share * len(text):
            return Drop("characters lost in a wrong decoding")
        return document if text == document.text else replace(document, text=text)
