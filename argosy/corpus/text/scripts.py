"""The script, the words, the normal form and the language of a text, told without a model.

Scripts come first, then the most frequent words of Latin-script languages: function words separate languages on a
sentence or more (Grefenstette 1995, "Comparing two language identification schemes"); the lists are the most frequent
words of each language that few of the others share."""

import re
import unicodedata
from collections import Counter
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path

import yaml

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAN_RUNS = re.compile(f"[{HAN}]+")
_WORDS = re.compile(rf"[{HAN}]|[^\W{HAN}]+")
_NOT_WORD = re.compile(r"[\W_]+")
_SPACES = re.compile(r"\s+")
_BREAK = re.compile(r"[\r\n](?=[^\r\n]*\Z)")
HAN_SHARE = 0.3  # of the words of a text that counts in characters; Chinese about programs has much that is not


def han_share(text: str) -> float:
    """Return the share of words that are Han characters; 0.0 for a text without words."""
    if text.isascii():
        return 0.0
    tokens = words(text)
    return sum(map(len, _HAN_RUNS.findall(text))) / len(tokens) if tokens else 0.0


# Filters look at the same text one after the other: the last answer is kept.
@lru_cache(maxsize=1)
def is_han(text: str) -> bool:
    """Whether to count this text in characters, as Chinese is, and not in words between spaces."""
    return han_share(text) > HAN_SHARE


@lru_cache(maxsize=1)
def words(text: str) -> tuple[str, ...]:
    """Split into lower-case words, at punctuation too; each Han character is a word of its own."""
    return tuple(_WORDS.findall(text.lower()))


def normalise(text: str) -> str:
    """Remove the differences between copies: case, width, punctuation and space (NFKC, casefold)."""
    return _NOT_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def unified(text: str) -> str:
    """Bring Unicode's form (NFC) and white space alone into one: one space, and at a line's end one line break, after
    which the indentation stays. No sign, no case and no width is lost."""
    return _SPACES.sub(_one_space, unicodedata.normalize("NFC", text).strip())


def _one_space(run: re.Match[str]) -> str:
    last = _BREAK.search(run[0])
    return "\n" + run[0][last.end() :] if last else " "


@cache
def simplified() -> dict[int, str]:
    """Return the simplified Chinese character of each traditional code point, as `str.translate` takes it: one for one,
    for comparison, and no translation to read."""
    lines = resources.files("argosy.corpus.text").joinpath("traditional.txt").read_text(encoding="utf-8").splitlines()
    groups = [line.split(" ") for line in lines if not line.startswith("#")]
    return {ord(old): new for before, after in groups for old, new in zip(before, after, strict=True)}


_LOOK_AT = 4000  # characters; more do not change the answer
_LEAST = 0.08  # share of function words in prose: in code a few are by chance
_SPEAKS = 10  # characters of a script beside Latin words that are no prose
_SCRIPTS = {
    "ja": re.compile("[\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f]"), "ko": re.compile("[\uac00-\ud7af\u1100-\u11ff]"),
    "zh": re.compile("[\u3400-\u4dbf\u4e00-\u9fff]"), "ru": re.compile("[\u0400-\u052f]"),
    "el": re.compile("[\u0370-\u03ff]"), "ar": re.compile("[\u0600-\u06ff]"), "he": re.compile("[\u0590-\u05ff]"),
    "hi": re.compile("[\u0900-\u097f]"), "th": re.compile("[\u0e00-\u0e7f]")}
_LATIN_WORD = re.compile(r"[a-zA-Z\u00c0-\u024f\u1e00-\u1eff]+")
_FUNCTION_WORDS: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
# Single letters stand in formulas, and what is English too tells nothing against English.
_ENGLISH = frozenset(_FUNCTION_WORDS["en"].split())
LISTED = {
    lang: frozenset(w for w in words.split() if lang == "en" or (len(w) > 1 and w not in _ENGLISH))
    for lang, words in _FUNCTION_WORDS.items()}


# Markup, code and addresses: "com" of a host is a word of Portuguese, "int" and "do" of a program are of others.
_NO_PROSE = re.compile(
    r"```.*?(?:```|$)|`[^`\n]*`|<[^<>\n]+>|https?://\S+|(?<![\w.@/\\-])[a-zA-Z0-9-]*[.@/\\_][\w.@/\\-]*\w",
    re.DOTALL | re.ASCII)


def without_markup(text: str) -> str:
    """Put a space where markup, code and addresses are."""
    return _NO_PROSE.sub(" ", text)


def identify(text: str) -> str:
    """Return the ISO 639-1 code of the main language of `text`; "" where nothing tells (numbers, names, too short).

    Kana makes Han text Japanese; other scripts count by their characters, Latin by its function words. Markup, code and
    addresses count nothing."""
    text = text if len(text) <= _LOOK_AT else text[: _LOOK_AT // 2] + text[len(text) // 2 :][: _LOOK_AT // 2]
    text = without_markup(text)
    if text.isascii():
        return _latin(text)
    counts = {lang: len(pattern.findall(text)) for lang, pattern in _SCRIPTS.items()}
    if counts["ja"] > 0.1 * counts["zh"]:
        counts["ja"] += counts.pop("zh")
    latin = _LATIN_WORD.findall(text)
    best = max(counts, key=lambda lang: counts[lang])
    # A word is about five letters, of a Han or Hangul text about two: compare words with words.
    per_word = 2 if best in ("zh", "ja", "ko") else 5
    if counts[best] / per_word > 0.5 * len(latin):
        return best
    return _latin(text) or (best if counts[best] >= _SPEAKS else "")


def _latin(text: str) -> str:
    """Return the language whose function words are most frequent; those of prose are a fifth of its words and more."""
    tokens = [word.lower() for word in _LATIN_WORD.findall(text)]
    hits = Counter({lang: sum(word in listed for word in tokens) for lang, listed in LISTED.items()})
    lang, best = hits.most_common(1)[0]
    # "die", "in", "is", "of" are words of several: ties go to English, which shares most of them.
    lang = "en" if hits["en"] == best else lang
    return lang if best >= _LEAST * len(tokens) and best > 0 else ""
