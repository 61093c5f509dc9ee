"""Personal data and secrets in a text: patterns, and the checks that tell them from look-alikes.

Numbers count only where their own check holds: ISO 7064 MOD 11-2 and a province for the resident ID of GB 11643-1999,
Luhn (ISO/IEC 7812) and the ranges of networks for cards, a global address for IP; and not where a word before them says
that they are the number of something else (an order, a version)."""

import re
from collections.abc import Callable, Iterator
from datetime import date
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_network
from math import log2
from pathlib import Path
from typing import Any

import yaml

KINDS = ("key", "email", "resident_id", "ssn", "card", "phone", "ip")  # where two overlap, the first counts
Span = tuple[int, int, str]

_DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_EMAIL, _DOMAINS = re.compile(_DATA["email"]), re.compile(_DATA["domains"])
_RESIDENT_ID, _SSN, _CARD, _IPV4, _IPV6 = (
    re.compile(_DATA[name], re.ASCII) for name in ("resident_id", "ssn", "card", "ipv4", "ipv6"))
_NETWORKS = re.compile(rf"(?:{'|'.join(_DATA['networks'])})$")
_PHONE = re.compile("|".join(_DATA["phone"]), re.ASCII)
_FILES = frozenset(("js", "py", "rs", "md", "ts", "so", "gz", "sh", "pl", "rb", "go", "cs", "ps"))  # no countries here
_OTHER_NUMBER = re.compile(
    rf"(?:{'|'.join(_DATA['other_number'])})[号號码碼]?[.:：=#\s]*(?:no\.?|number|num|id|#|为|是|is)?[.:：=#\s]*$",
    re.IGNORECASE)
_VALUE = re.compile(_DATA["value"], re.IGNORECASE)
_MARKS = " \t#*"  # before a heading
_MOST_MARKS = 80
_MOST_SECTIONS = 40  # of a heading's number, which an address is not
_TITLE = re.compile(r"[ \t]+[^\W\d]")
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_PROVINCES = re.compile("1[1-5]|2[1-3]|3[1-7]|4[1-6]|5[0-4]|6[1-5]|71|8[1-3]|9[19]")  # 91: abroad, 99: made up
_EXAMPLES = tuple(map(ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")))
_LEAST_ENTROPY = 3.2  # bits a character: words and `0000` have less, drawn characters more


def triggers() -> dict[str, re.Pattern[str]]:
    """Return the pattern to try where each beginning of a key stands; cases of letters do not matter to the scan."""
    found = {begin: re.compile(key["pattern"]) for key in _DATA["keys"] for begin in key["begins"]}
    return found | dict.fromkeys(_DATA["names"], _VALUE)


def valid_resident_id(number: str) -> bool:
    """Whether a province, a date that has been and the check digit of the 17 before it make it an ID."""
    remainder = sum(int(digit) * weight for digit, weight in zip(number, _WEIGHTS, strict=False)) % 11
    try:
        date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    return bool(_PROVINCES.match(number)) and number[6:10] < "2040" and "10X98765432"[remainder] == number[17].upper()


def valid_card(number: str) -> bool:
    """Whether digits pass Luhn's check and have the beginning and the length of a network's cards."""
    digits = [int(character) for character in number if character.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(doubled) + sum(digits[-1::-2])) % 10 == 0 and bool(_NETWORKS.match("".join(map(str, digits))))


def is_someones_ip(address: str) -> bool:
    """Whether it may be somebody's, or stands for one that is: private, local and multicast addresses are nobody's."""
    try:
        parsed = IPv6Address(address) if ":" in address else IPv4Address(address)
    except AddressValueError:
        return False
    example = any(parsed in network for network in _EXAMPLES)
    return example or (parsed.is_global and not parsed.is_multicast and not parsed.is_reserved)


def is_key(value: str) -> bool:
    """Whether a value looks drawn: letters and digits, and much entropy a character."""
    shares = [value.count(character) / len(value) for character in set(value)]
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return mixed and -sum(share * log2(share) for share in shares) >= _LEAST_ENTROPY


def email_at(text: str, at: int, _: int) -> Iterator[Span]:
    """Yield the address around the `@` at `at`: its domain ends as domains do and it is no file (icon@2x.png)."""
    begin = at
    while begin and at - begin < 65 and _in_address(text[begin - 1]):
        begin -= 1
    while begin < at and not text[begin].isalnum():
        begin += 1
    match = _EMAIL.match(text, begin)
    if match and match.end() > at:
        ending = match[1].lower()
        known = bool(_DOMAINS.fullmatch(ending)) or (len(ending) == 2 and ending not in _FILES)
        if known and not (match.group().startswith("git@") and text[match.end() : match.end() + 1] in (":", "/")):
            yield (*match.span(), "email")


def _in_address(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character in "._%+-")


_NUMBERS: tuple[tuple[str, re.Pattern[str], Callable[[str], bool]], ...] = (
    ("resident_id", _RESIDENT_ID, valid_resident_id), ("ssn", _SSN, bool), ("card", _CARD, valid_card),
    ("phone", _PHONE, bool), ("ip", _IPV4, is_someones_ip))


def numbers_in(text: str, begin: int, end: int) -> Iterator[Span]:
    """Yield numbers of persons in the run of digits and signs from `begin` to `end`, in no order."""
    begin, end = max(0, begin - 2), min(len(text), end + 3)
    for kind, pattern, check in _NUMBERS:
        for match in pattern.finditer(text, begin, end):
            if check(match.group()) and (kind == "resident_id" or not _is_another(text, match, kind)):
                yield (*match.span(), kind)


def _is_another(text: str, match: re.Match[str], kind: str) -> bool:
    """Whether what stands before the number says that it is of an order, a version, ..., or it is a heading's."""
    if _OTHER_NUMBER.search(text, max(0, match.start() - 24), match.start()):
        return True
    section = kind == "ip" and max(map(int, match.group().split("."))) <= _MOST_SECTIONS
    if not section or not _TITLE.match(text, match.end()):
        return False
    # A look at the whole text before it would take minutes of a document with thousands of sections.
    begin = max(0, match.start() - _MOST_MARKS)
    before = text[begin : match.start()].rstrip(_MARKS)
    return before.endswith("\n") or (not before and not begin)


def ipv6_in(text: str, begin: int, end: int) -> Iterator[Span]:
    """Yield addresses of IPv6 in the run of hexadecimal digits and colons."""
    for match in _IPV6.finditer(text, begin, min(len(text), end + 1)):
        if is_someones_ip(match.group()):
            yield (*match.span(), "ip")


def key_at(text: str, at: int, pattern: re.Pattern[str]) -> Iterator[Span]:
    """Yield the key that begins at `at`, or the value of the name that stands there."""
    match = pattern.match(text, at)
    if match and (pattern is not _VALUE or is_key(match[1])):
        yield (*match.span(1 if pattern is _VALUE else 0), "key")
