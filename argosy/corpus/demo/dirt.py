"""Documents that cleaning should repair or drop, each labelled with what is wrong with it."""

import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from argosy.corpus.data.schemas import Document, Item
from argosy.corpus.demo.facts import read_yaml
from argosy.corpus.demo.knowledge import plain_quiz

KINDS = ("email", "phone", "id_number", "ip", "card")

# Card networks publish these for tests; all pass the Luhn check.
_TEST_CARDS = ("4111111111111111", "4242424242424242", "5555555555554444", "6011111111111117")
_CHECK_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def fake_value(kind: str, lang: str, rng: Random) -> str:
    """Make a value of one of KINDS in the form that is usual where `lang` is spoken."""
    if kind == "email":
        name = rng.choice(("li.wei", "anna_b", "m.jones", "wangfang", "peter"))
        return f"{name}{rng.randrange(10, 100)}@example.{rng.choice(('com', 'org', 'net'))}"
    if kind == "phone":
        # No operator in China has been given the prefix 154.
        return f"154{rng.randrange(10**8):08d}" if lang == "zh" else f"(212) 555-01{rng.randrange(100):02d}"
    if kind == "id_number":
        return _chinese_id(rng) if lang == "zh" else f"987-65-43{rng.randrange(20, 30)}"
    if kind == "ip":
        # RFC 5737: addresses for documentation.
        return f"{rng.choice(('192.0.2', '198.51.100', '203.0.113'))}.{rng.randrange(1, 255)}"
    if kind == "card":
        digits = rng.choice(_TEST_CARDS)
        return " ".join(digits[i : i + 4] for i in range(0, 16, 4)) if rng.random() < 0.5 else digits
    raise ValueError(f"kind is {kind!r}, allowed: {KINDS}")


def _chinese_id(rng: Random) -> str:
    # No region has the code 990101; the check digit is right (GB 11643-1999).
    digits = f"990101{rng.randrange(1950, 2000)}{rng.randrange(1, 13):02d}{rng.randrange(1, 29):02d}"
    digits += f"{rng.randrange(1000):03d}"
    total = sum(int(digit) * weight for digit, weight in zip(digits, _CHECK_WEIGHTS, strict=True))
    return digits + "10X98765432"[total % 11]


Made = tuple[str, dict[str, Any]]


def _near_duplicate(rng: Random, base: Document, items: Sequence[Item]) -> Made:
    """Put in a filler word for about every 100 words (en) or 200 characters (zh)."""
    parts = re.split(r"(?<=。)" if base.lang == "zh" else r"(?<=\S)(?= )", base.text)
    size = len(base.text) // 200 if base.lang == "zh" else len(parts) // 100
    for place in rng.sample(range(1, len(parts)), min(max(1, size), len(parts) - 1)):
        filler = rng.choice(_data("fillers", base.lang))
        parts[place] = filler + parts[place] if base.lang == "zh" else f" {filler}{parts[place]}"
    return "".join(parts), {"of": base.id}


def _mojibake(rng: Random, base: Document, items: Sequence[Item]) -> Made:
    encoding = rng.choice(("latin-1", "cp1252", "gbk"))
    text = base.text
    if base.lang == "en":
        encoding, text = "cp1252", " ".join([*_data("typographic"), text])
    return text.encode().decode(encoding, errors="replace"), {"of": base.id, "decoded_as": encoding}


def _boilerplate(rng: Random, base: Document, items: Sequence[Item]) -> Made:
    lines = _data("boilerplate", base.lang)
    return "\n".join(rng.sample(lines, rng.randint(7, len(lines)))), {}


def _boilerplate_lines(rng: Random, base: Document, items: Sequence[Item]) -> Made:
    lines = rng.sample(_data("boilerplate", base.lang), 4)
    return "\n".join([*lines[:2], base.text, *lines[2:]]), {"of": base.id, "lines": lines}


def _gibberish(rng: Random, base: Document, items: Sequence[Item]) -> Made:
    if base.lang == "zh":
        return "".join(chr(rng.randrange(0x4E00, 0x9FA6)) for _ in range(rng.randint(100, 300))), {}
    letters = rng.choice(("bcdfghjklmnpqrstvwxz", "abcdefghijklmnopqrstuvwxyz0123456789", "#$%&*+=/<>@^~|!?xz"))
    words = ["".join(rng.choices(letters, k=rng.randint(3, 12))) for _ in range(rng.randint(40, 120))]
    return " ".join(words), {}


def _pii(rng: Random, base: Document, items: Sequence[Item]) -> Made:
    lang = base.lang
    found = [{"type": kind, "value": fake_value(kind, lang, rng)} for kind in rng.sample(KINDS, 2)]
    lines = [rng.choice(_data("pii", lang)[entry["type"]]).format(value=entry["value"]) for entry in found]
    return "\n".join([base.text, *lines]), {"of": base.id, "pii": found}


def _toxic(rng: Random, base: Document, items: Sequence[Item]) -> Made:
    lines = rng.sample(_data("toxic", base.lang), 3)
    return "\n".join([lines[0], base.text, *lines[1:]]), {"of": base.id, "lines": lines}


def _wrong_language(rng: Random, base: Document, items: Sequence[Item]) -> Made:
    sentences = read_yaml("foreign.yaml")
    language = rng.choice(sorted(sentences))
    joint = "" if language == "ja" else " "
    return joint.join(rng.sample(sentences[language], 6)), {"language": language}


def _leaked_benchmark(rng: Random, base: Document, items: Sequence[Item]) -> Made:
    """Make a web-like page with up to five items in the benchmark's plain form, answers included."""
    same = [item for item in items if item["lang"] == base.lang]
    shown = rng.sample(same, min(5, len(same)))
    quizzes = [plain_quiz(item) for item in shown]
    page = _data("page", base.lang)
    body = [quiz.text_prompt + quiz.text_answer for quiz in quizzes]
    text = "\n\n".join([rng.choice(page["head"]), *body, rng.choice(page["foot"])])
    return text, {"items": [item["id"] for item in shown]}


MAKERS: dict[str, Callable[[Random, Document, Sequence[Item]], Made]] = {
    "exact_duplicate": lambda _, base, __: (base.text, {"of": base.id}),
    "near_duplicate": _near_duplicate, "mojibake": _mojibake,
    "boilerplate": _boilerplate, "boilerplate_lines": _boilerplate_lines, "gibberish": _gibberish, "pii": _pii,
    "toxic": _toxic, "wrong_language": _wrong_language, "leaked_benchmark": _leaked_benchmark}


def _data(*keys: str) -> Any:
    value = read_yaml("dirt.yaml")
    for key in keys:
        value = value[key]
    return value


_DUPLICATES = ("exact_duplicate", "near_duplicate")

# A shorter base would hardly resemble its near duplicate.
_LEAST_CHARS = {"en": 400, "zh": 150}


def dirty_documents(clean: Sequence[Document], spare: Sequence[Document], items: Sequence[Item], per_kind: int,
                    seed: str | int) -> Iterator[Document]:
    """Make `per_kind` documents of each of MAKERS; languages take turns where both are given.

    Duplicates are made of `clean`, the others of `spare`: prose that must not be in the corpus too (or deduplication
    would find them first), ten times `per_kind`. Leaked pages show `items`. In the metadata `dirt` is the kind and `of`
    the id of the document inside, if any; besides `lines` (boilerplate, insults), `pii` (type and value), `items` (ids
    of leaked items), `language`, `decoded_as`."""
    pools = {True: _in_turn(clean, seed), False: _in_turn(spare, seed)}
    used = {True: 0, False: 0}
    for kind, maker in MAKERS.items():
        is_duplicate = kind in _DUPLICATES
        for index in range(per_kind):
            base = pools[is_duplicate][used[is_duplicate] % len(pools[is_duplicate])]
            used[is_duplicate] += 1
            text, metadata = maker(Random(f"dirt/{seed}/{kind}/{index}"), base, items)
            name = f"dirt-{kind}-{index}"
            yield Document(name, text, base.channel, base.lang, "argosy-demo", {"dirt": kind, **metadata})


def _in_turn(documents: Sequence[Document], seed: str | int) -> list[Document]:
    """Shuffle the prose that is long enough, languages in turn and as many of each; code is left out."""
    prose = [d for d in documents if d.channel != "code" and len(d.text) >= _LEAST_CHARS[d.lang]]
    Random(f"dirt/{seed}").shuffle(prose)
    groups = [group for lang in _LEAST_CHARS if (group := [d for d in prose if d.lang == lang])]
    if not groups:
        raise ValueError(f"{len(documents)} documents, none of them is prose of {_LEAST_CHARS} characters")
    return [document for row in zip(*groups, strict=False) for document in row]
