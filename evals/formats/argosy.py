"""Argosy's own items, as JSONL."""

from collections.abc import Iterable

from evals.formats import At, Format
from evals.items import LANGS, AnyItem, BrokenItem, OpenItem
from evals.records import Record, text

NEITHER = "no choices, and no solution: an item whose answer is generated needs one, or \"solution\": \"\""


class Argosy(Format):
    """`{"id", "lang", "question", "choices": [...], "answer"}`: the answer is an index from 0, a label ("B") or a text.

    `answers` (several right options), `subject` and `cluster` may be added. Without `choices`, `answer` is the text
    that has to be generated, and `solution` how one gets there."""

    name = "argosy"
    suffixes = (".jsonl", ".json")

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        absent = next((name for name in ("id", "question", "answer") if name not in record), None)
        if absent:
            raise BrokenItem(f"no {absent}")
        if "choices" in record:
            if not isinstance(record.get("answers") or [], list):
                raise BrokenItem("answers are not a list")
            return [self.item({**record, "answer": record.get("answers") or record["answer"]}, at)]
        lang, answer = str(record.get("lang", at.lang or self.lang)), record["answer"]
        if lang not in LANGS:
            raise BrokenItem(f"lang is not one of {', '.join(LANGS)}")
        if "solution" not in record:
            raise BrokenItem(NEITHER)
        if isinstance(answer, bool) or not isinstance(answer, str | int | float):
            raise BrokenItem("answer is not a text")
        about = {name: str(record.get(name, "")) for name in ("solution", "subject", "cluster")}
        return [OpenItem(str(record["id"]), lang, text(record, "question"), str(answer).strip(), **about)]
