"""Multiple choice written as instructions, as LLM-Adapters (Hu et al., 2023) publishes commonsense benchmarks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from evals.formats.fields import checked, label_index, number_index, text
from evals.formats.format import At, Format, Record
from evals.formats.mathqa import split_options
from evals.items import AnyItem, BrokenItem

_ASKED = re.compile(r"^Please choose the correct \w+ to .*?: ", re.DOTALL)
_OPTION = re.compile(r"\b(?:Answer|Solution|Option|Ending)(\d+):")
_END = re.compile(r"\s*Answer format:.*$", re.DOTALL)
_NAMED = re.compile(r"(?:answer|solution|option|ending)(\d+)")
_MATH = " The options: "


class Instructions(Format):
    """`{"instruction": "Please choose ...: QUESTION Answer1: ... Answer2: ... Answer format: ...", "answer":
    "answer2"}` in a JSON list; MathQA's ends in `The options: A ) 38 , B ) ...`, with a letter as answer."""

    name: ClassVar[str] = "instructions"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl")

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One item."""
        asked, answer = text(record, "instruction"), text(record, "answer")
        lang = at.lang or self.lang
        if _MATH in asked:
            question, _, options = asked.rpartition(_MATH)
            return [checked(at.id, lang, question, split_options(options), label_index(answer))]
        question, *parts = _OPTION.split(_END.sub("", asked))
        if [int(number) for number in parts[::2]] != list(range(1, len(parts) // 2 + 1)) or not parts:
            raise BrokenItem("options could not be split")
        named = _NAMED.fullmatch(answer)
        if named is None:
            raise BrokenItem("answer is not a label of the choices")
        return [checked(at.id, lang, _ASKED.sub("", question), parts[1::2], number_index(named[1], 1))]
