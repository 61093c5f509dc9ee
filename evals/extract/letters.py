"""The labels of several options."""

from __future__ import annotations

import re
from functools import cache
from typing import ClassVar

from evals.extract.labels import OPEN, STATED, before_next_question

_BETWEEN = r"\s*(?:[,，、;；&]|和|与|及|and\b)?\s*"


class Letters:
    """"AC", "A, C", "A和C", "答案是A、C": the labels of the last run of them that is stated, else of the run that
    the text begins with, in the order of the options."""

    name: ClassVar[str] = "letters"

    def extract(self, text: str, labels: str) -> str | None:
        """Some of `labels`, each once, or None."""
        stated, first = _patterns(labels)
        text = before_next_question(text, labels)
        found = stated.findall(text)
        begins = first.match(text)
        run = found[-1] if found else begins.group(1) if begins else None
        return None if run is None else "".join(one for one in labels if one in _bare(run))

    def canonical(self, answer: str) -> str:
        """The labels, as they are: in the order of the options."""
        return answer.strip()

    def closing(self, answer: str, lang: str) -> str:
        """The labels."""
        return answer


def _bare(run: str) -> str:
    return run.replace("and", "")


@cache
def _patterns(labels: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    one = f"[{re.escape(labels)}]"
    run = rf"({one}(?:{_BETWEEN}{one})*)(?![A-Za-z0-9])"
    return re.compile(f"{STATED}{OPEN}{run}"), re.compile(f"{OPEN}{run}")
