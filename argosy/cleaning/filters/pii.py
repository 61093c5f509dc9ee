"""Placeholders for personal data: e-mail, phone, resident ID (China), social security number (US), bank card, IP.

Numbers count only where their own check holds (ISO 7064 MOD 11-2 for the resident ID of GB 11643-1999, Luhn
for cards), so that tables of numbers survive."""

import re
from collections.abc import Callable
from dataclasses import replace

from argosy.cleaning.filter import Filter, FilterConfig, Resources
from argosy.data.schemas import Document

_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.)){1,4}[A-Za-z]{2,18}"
    r"(?![A-Za-z0-9])"
)
_RESIDENT_ID = re.compile(
    r"(?<![0-9A-Za-z])[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx]"
    r"(?![0-9A-Za-z])"
)
_SSN = re.compile(r"(?<![\d.-])(?!000|666)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])")
_CARD = re.compile(r"(?<![\d.-])(?:\d[ -]?){12,18}\d(?![\d.]\d|\d)")
_IP = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)")
_PHONES = re.compile(
    r"(?<![\d.\w])(?:(?:\+|00)?86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?![\d\w])"  # mainland mobile
    r"|(?<![\d.\w])0\d{2,3}[-－ ]\d{7,8}(?!\d)"  # mainland fixed line
    r"|(?<![\d.\w])(?:\+?1[ .-]?)?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[.-])\d{3}[.-]\d{4}(?![\d\w])"  # North America
    r"|(?<![\d\w])\+\d{1,3}[ .-]?(?:\(?\d{1,4}\)?[ .-]?){2,4}\d{2,4}(?![\d\w])",  # international
    re.ASCII,
)
# Every rule but the one for e-mail needs this much of a number: a quick look spares most texts the slow ones.
_NUMBER = re.compile(r"\d[\d .()\-－]{5,}\d", re.ASCII)
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


class PiiConfig(FilterConfig):
    """Config without thresholds: personal data is always replaced, in every channel."""

    name: str = "pii"


class Pii(Filter[PiiConfig]):
    """A filter that replaces personal data and never drops. `counts` has how many of each kind."""

    config_class = PiiConfig

    def __init__(self, config: PiiConfig, resources: Resources) -> None:
        super().__init__(config, resources)
        self._rules = (
            ("email", _EMAIL, bool), ("resident_id", _RESIDENT_ID, valid_resident_id), ("ssn", _SSN, bool),
            ("phone", _PHONES, bool), ("card", _CARD, valid_card), ("ip", _IP, is_someones_ip)
        )

    def __call__(self, document: Document) -> Document:
        text = document.text
        numbers = _NUMBER.search(text) is not None
        for kind, pattern, check in self._rules:
            if "@" in text if kind == "email" else numbers:
                text = self._scrub(text, kind, pattern, check)
        return document if text == document.text else replace(document, text=text)

    def _scrub(self, text: str, kind: str, pattern: re.Pattern[str], check: Callable[[str], bool]) -> str:
        def substitute(match: re.Match[str]) -> str:
            if not check(match.group()):
                return match.group()
            self.counts[kind] += 1
            return f"<{kind.upper()}>"

        return pattern.sub(substitute, text)


def valid_resident_id(number: str) -> bool:
    """Whether the 18th character is the check digit of the 17 before it."""
    remainder = sum(int(digit) * weight for digit, weight in zip(number, _WEIGHTS, strict=False)) % 11
    return "10X98765432"[remainder] == number[17].upper()


def valid_card(number: str) -> bool:
    """Whether 13 to 19 digits pass Luhn's check and begin as bank cards do (2 to 6)."""
    digits = [int(character) for character in number if character.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return 13 <= len(digits) <= 19 and digits[0] in (2, 3, 4, 5, 6) and (sum(doubled) + sum(digits[-1::-2])) % 10 == 0


def is_someones_ip(address: str) -> bool:
    """Whether it may be somebody's: loopback, private (RFC 1918), link-local, 0.* and multicast are nobody's."""
    first, second, *rest = map(int, address.split("."))
    if max(first, second, *rest) > 255 or first in (0, 10, 127) or first >= 224:
        return False
    return (first, second) not in ((192, 168), (169, 254)) and not (first == 172 and 16 <= second < 32)
