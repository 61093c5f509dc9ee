"""Word problems (GSM8K, MathQA), and multiple choice that LLM-Adapters writes as instructions."""

import ast
import re
from collections.abc import Iterable

from evals.formats import At, Format
from evals.items import AnyItem, BrokenItem, OpenItem
from evals.records import Fields, Record, text


class Gsm8k(Format):
    """`{"question", "answer"}`: the answer is the solution, calculations in `<<...>>`, and a last line `#### 18`."""

    name = "gsm8k"

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        solution, mark, answer = text(record, "answer").rpartition("####")
        number = answer.strip().replace(",", "")
        if not mark or not number:
            raise BrokenItem("answer has no line `#### number`")
        return [OpenItem(at.id, at.lang or self.lang, text(record, "question"), number, solution.strip())]


_MARK = re.compile(r"(?:^\W*|,\s*)([a-e])\s*\)\s*", re.IGNORECASE)


class MathQA(Format):
    """`{"Problem", "options": "a ) 38 , b ) 27.675 , ...", "correct": "a"}` in a JSON list (`test.json`)."""

    name = "mathqa"
    suffixes = (".json", ".jsonl")
    fields = Fields(question="Problem", answer="correct", subject="category", solution="Rationale")

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        return [self.item({**record, "choices": split_options(text(record, "options"))}, at)]


def _joined(options: str) -> str:
    """Join the options of a row that has them as a Python list of texts."""
    if not options.startswith("["):
        return options
    try:
        return " , ".join(map(str, ast.literal_eval(options)))
    except (ValueError, SyntaxError, TypeError):
        raise BrokenItem("options could not be split") from None


def split_options(options: str) -> list[str]:
    """Split the texts behind `a )`, `b )`, ...; BrokenItem where the letters do not follow each other from a."""
    parts = _MARK.split(_joined(options.strip()))
    letters = [letter.lower() for letter in parts[1::2]]
    if not letters or letters != list("abcde"[: len(letters)]):
        raise BrokenItem("options could not be split")
    return [option.strip(" ,") for option in parts[2::2]]


_ASKED = re.compile(r"^Please choose the correct \w+ to .*?: ", re.DOTALL)
_OPTION = re.compile(r"\b(?:Answer|Solution|Option|Ending)(\d+):")
_END = re.compile(r"\s*Answer format:.*$", re.DOTALL)
_NAMED = re.compile(r"(?:answer|solution|option|ending)(\d+)")
_MATH = " The options: "


class Instructions(Format):
    """`{"instruction": "Please choose ...: QUESTION Answer1: ... Answer2: ... Answer format: ...", "answer":
    "answer2"}` in a JSON list; MathQA's ends in `The options: A ) 38 , B ) ...`, with a letter as answer."""

    name = "instructions"
    suffixes = (".json", ".jsonl")

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        asked, answer = text(record, "instruction"), text(record, "answer")
        if _MATH in asked:
            question, _, listed = asked.rpartition(_MATH)
            return [self.item({**record, "choices": split_options(listed)}, at, question=question)]
        question, *parts = _OPTION.split(_END.sub("", asked))
        if [int(number) for number in parts[::2]] != list(range(1, len(parts) // 2 + 1)) or not parts:
            raise BrokenItem("options could not be split")
        named = _NAMED.fullmatch(answer)
        found = {"choices": parts[1::2], "answer": int(named[1]) - 1 if named else answer}
        return [self.item(found, at, question=_ASKED.sub("", question))]
