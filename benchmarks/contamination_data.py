"""Items and text of ../shared/data for the contamination benchmark: real questions, real prose."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

from evals.formats import parse_item, read_items
from evals.items import BrokenItem, Item
from evals.natural import natural_order
from evals.variants import NotApplicable, parse_chain

DATA = Path(__file__).parents[2] / "shared/data"
LONGEST = 130  # characters of an item: the models' context is short
_ASKED = re.compile(r"question: (.*?)\n\n(Answer1: .*?)\n\nAnswer format", re.DOTALL)
_OPTION = re.compile(r"Answer\d: (.*?)(?= Answer\d: |$)", re.DOTALL)


def mmlu(data: Path = DATA) -> list[Item]:
    """Test items of MMLU that are short enough."""
    files = sorted((data / "mmlu").glob("data__mmlu__test__*.csv"))
    return _short([item for path in files for item in read_items(path).items if isinstance(item, Item)])


def openbookqa(data: Path = DATA) -> list[Item]:
    """Training items of OpenBookQA that are short enough."""
    records = json.loads((data / "commonsense_mc/dataset__openbookqa__train.json").read_text(encoding="utf-8"))
    found = []
    for number, record in enumerate(records):
        asked = _ASKED.search(record["instruction"])
        options = _OPTION.findall(asked[2]) if asked else []
        answer = int(record["answer"].removeprefix("answer")) - 1
        try:
            found.append(parse_item({"id": f"openbookqa/{number}", "lang": "en", "question": asked[1] if asked else "",
                                     "choices": options, "answer": answer}))
        except BrokenItem:
            continue
    return _short(found)


def _short(items: Sequence[Item]) -> list[Item]:
    """One of each question, with four options that can be in any order and are in none that everybody would choose."""
    known = {item.question: item for item in items
             if len(item.choices) == 4 and len(item.question) + sum(map(len, item.choices)) <= LONGEST}
    return [item for item in known.values() if _any_order(item) and not natural_order(item.choices)]


def _any_order(item: Item) -> bool:
    try:
        return bool(parse_chain("permuted").questions(item, 0))
    except NotApplicable:
        return False


def prose(data: Path = DATA, size: int = 400) -> list[str]:
    """Pieces of about `size` characters of a play, and of books about programming."""
    files = [*sorted((data / "en_tinyshakespeare").glob("*.txt")), *sorted((data / "en_rustbook").glob("*.md"))]
    text = [re.sub(r"\n{3,}", "\n\n", path.read_text(encoding="utf-8", errors="replace")) for path in files]
    pieces = [each[start : start + size] for each in text for start in range(0, len(each), size)]
    Random(0).shuffle(pieces)
    return pieces
