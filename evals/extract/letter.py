"""The label of one option."""

from __future__ import annotations

import re
from functools import cache
from typing import ClassVar

from evals.extract.labels import OPEN, STATED, before_next_question, denied, label, said_after_a_list, undecided


class Letter:
    """"B", "B.", "(B) Paris", "The answer is B", "答案是B", "故选：B", "\\boxed{B}": a stated label (the last one)
    goes before the one that the text begins with, and that before the only one that stands alone in it. One that the
    text denies ("not A", "A is wrong", "不选A") is none of them; "B or C" is no answer, nor is what follows a next
    question."""

    name: ClassVar[str] = "letter"

    def extract(self, text: str, labels: str) -> str | None:
        """One of `labels`, or None."""
        stated, first, alone = _patterns(labels)
        text = before_next_question(text, labels)
        wrong, open_ = denied(text, labels), undecided(text, labels)
        found = [said for said in stated.finditer(text) if said.start(1) not in wrong]
        if found and (last := said_after_a_list(text, labels, wrong)) is not None:
            return last or None
        if found:
            return None if found[-1].start(1) in open_ else found[-1][1]
        begins = first.match(text)
        if begins and begins.start(1) not in wrong | open_:
            return begins[1]
        standing = set(alone.findall(text)) - {text[place] for place in wrong}
        return str(standing.pop()) if len(standing) == 1 else None

    def canonical(self, answer: str) -> str:
        """The label."""
        return answer.strip()

    def closing(self, answer: str, lang: str) -> str:
        """The label."""
        return answer


@cache
def _patterns(labels: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    after, alone = label(labels, alone=False), label(labels, alone=True)
    return re.compile(f"{STATED}{OPEN}({after})"), re.compile(f"{OPEN}({alone})"), re.compile(f"({alone})")
