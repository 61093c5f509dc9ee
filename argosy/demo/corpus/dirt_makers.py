"""One function a kind of dirt: (rng, a clean document, benchmark items) -> text and metadata."""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from argosy.demo.corpus.benchmark import plain_quiz
from argosy.demo.corpus.dirt_pii import KINDS, fake_value
from argosy.demo.corpus.records import DocumentRecord, Item
from argosy.demo.data_file import read_yaml

Made = tuple[str, dict[str, Any]]


def _exact_duplicate(rng: Random, base: DocumentRecord, items: Sequence[Item]) -> Made:
    return base["text"], {"of": base["id"]}


def _near_duplicate(rng: Random, base: DocumentRecord, items: Sequence[Item]) -> Made:
    """A filler word is put in for about every 100 words (en) or 200 characters (zh)."""
    parts = re.split(r"(?<=。)" if base["lang"] == "zh" else r"(?<=\S)(?= )", base["text"])
    size = len(base["text"]) // 200 if base["lang"] == "zh" else len(parts) // 100
    for place in rng.sample(range(1, len(parts)), min(max(1, size), len(parts) - 1)):
        filler = rng.choice(_data("fillers", base["lang"]))
        parts[place] = filler + parts[place] if base["lang"] == "zh" else f" {filler}{parts[place]}"
    return "".join(parts), {"of": base["id"]}


def _mojibake(rng: Random, base: DocumentRecord, items: Sequence[Item]) -> Made:
    encoding = rng.choice(("latin-1", "cp1252", "gbk"))
    text = base["text"]
    if base["lang"] == "en":
        encoding, text = "cp1252", " ".join([*_data("typographic"), text])
    return text.encode().decode(encoding, errors="replace"), {"of": base["id"], "decoded_as": encoding}


def _boilerplate(rng: Random, base: DocumentRecord, items: Sequence[Item]) -> Made:
    lines = _data("boilerplate", base["lang"])
    return "\n".join(rng.sample(lines, rng.randint(7, len(lines)))), {}


def _boilerplate_lines(rng: Random, base: DocumentRecord, items: Sequence[Item]) -> Made:
    lines = rng.sample(_data("boilerplate", base["lang"]), 4)
    return "\n".join([*lines[:2], base["text"], *lines[2:]]), {"of": base["id"], "lines": lines}


def _gibberish(rng: Random, base: DocumentRecord, items: Sequence[Item]) -> Made:
    if base["lang"] == "zh":
        return "".join(chr(rng.randrange(0x4E00, 0x9FA6)) for _ in range(rng.randint(100, 300))), {}
    letters = rng.choice(("bcdfghjklmnpqrstvwxz", "abcdefghijklmnopqrstuvwxyz0123456789", "#$%&*+=/<>@^~|!?xz"))
    words = ["".join(rng.choices(letters, k=rng.randint(3, 12))) for _ in range(rng.randint(40, 120))]
    return " ".join(words), {}


def _pii(rng: Random, base: DocumentRecord, items: Sequence[Item]) -> Made:
    lang = base["lang"]
    found = [{"type": kind, "value": fake_value(kind, lang, rng)} for kind in rng.sample(KINDS, 2)]
    lines = [rng.choice(_data("pii", lang)[entry["type"]]).format(value=entry["value"]) for entry in found]
    return "\n".join([base["text"], *lines]), {"of": base["id"], "pii": found}


def _toxic(rng: Random, base: DocumentRecord, items: Sequence[Item]) -> Made:
    lines = rng.sample(_data("toxic", base["lang"]), 3)
    return "\n".join([lines[0], base["text"], *lines[1:]]), {"of": base["id"], "lines": lines}


def _wrong_language(rng: Random, base: DocumentRecord, items: Sequence[Item]) -> Made:
    sentences = read_yaml("corpus/foreign.yaml")
    language = rng.choice(sorted(sentences))
    joint = "" if language == "ja" else " "
    return joint.join(rng.sample(sentences[language], 6)), {"language": language}


def _leaked_benchmark(rng: Random, base: DocumentRecord, items: Sequence[Item]) -> Made:
    """A web-like page with up to five items in the benchmark's plain form, answers included."""
    same = [item for item in items if item["lang"] == base["lang"]]
    shown = rng.sample(same, min(5, len(same)))
    quizzes = [plain_quiz(item) for item in shown]
    page = _data("page", base["lang"])
    body = [quiz.text_prompt + quiz.text_answer for quiz in quizzes]
    text = "\n\n".join([rng.choice(page["head"]), *body, rng.choice(page["foot"])])
    return text, {"items": [item["id"] for item in shown]}


MAKERS: dict[str, Callable[[Random, DocumentRecord, Sequence[Item]], Made]] = {
    "exact_duplicate": _exact_duplicate,
    "near_duplicate": _near_duplicate,
    "mojibake": _mojibake,
    "boilerplate": _boilerplate,
    "boilerplate_lines": _boilerplate_lines,
    "gibberish": _gibberish,
    "pii": _pii,
    "toxic": _toxic,
    "wrong_language": _wrong_language,
    "leaked_benchmark": _leaked_benchmark,
}


def _data(*keys: str) -> Any:
    value = read_yaml("corpus/dirt.yaml")
    for key in keys:
        value = value[key]
    return value
