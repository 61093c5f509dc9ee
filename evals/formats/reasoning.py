"""Collections of hard tasks: AGIEval, and BIG-Bench Hard with its worked examples."""

import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from evals.formats import At, Format
from evals.items import AnyItem, BrokenItem, OpenItem
from evals.records import Fields, Record, Records, json_list, label_indexes, language_of, read_bytes, text


class AgiEval(Format):
    """`{"passage", "question", "options": ["(A)...", ...], "label": "B", "answer", "other"}`, a file a subject
    (`data/v1_1/lsat-ar.jsonl`); `label` may name several. Without options, `answer` is generated. Questions of one
    passage are a cluster."""

    name = "agieval"
    lang = ""
    fields = Fields(choices="options", answer="label")
    a_file_a_subject = True

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        passage, asked = str(record.get("passage") or "").strip(), text(record, "question")
        question = f"{passage}\n{asked}" if passage else asked
        cluster = sha256(passage.encode()).hexdigest()[:12] if passage else ""
        other = record.get("other")
        solution = str(other.get("solution") or "") if isinstance(other, dict) else ""
        if not record.get("options"):
            lang = at.lang or language_of(question)
            return [OpenItem(at.id, lang, question, text(record, "answer"), solution, at.subject or at.stem, cluster)]
        found = {**record, "label": list(label_indexes(record.get("label"))), "solution": solution}
        return [self.item(found, at, question=question, cluster=cluster)]


_OPTIONS = re.compile(r"\n?Options:\s*\n")
_OPTION = re.compile(r"^\s*(?:\(([A-Z])\)|-)\s*(.+?)\s*$", re.MULTILINE)
_STEP = "Let's think step by step."
_SO = re.compile(r"\s*(?:So,? )?the answer is\b(.*)$", re.IGNORECASE | re.DOTALL)


class Bbh(Format):
    """`{"examples": [{"input", "target"}]}` (`bbh/date_understanding.json`), a file a task, whose options stand in the
    input ("(A) ..." or "- Yes"); without options the answer is generated. `cot-prompts/date_understanding.txt` has
    worked examples: their solutions."""

    name = "bbh"
    suffixes = (".json", ".jsonl", ".txt")
    a_file_a_subject = True

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """Read the examples of a task, or the worked ones of its prompt."""
        if path.suffix == ".json":
            yield from json_list(path, encoding, "examples")
        elif path.suffix == ".jsonl":
            yield from super().records(path, encoding)
        else:
            yield from worked(read_bytes(path).decode(encoding))

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        asked, target = text(record, "input"), text(record, "target")
        solution = str(record.get("solution") or "")
        question, *listed = _OPTIONS.split(asked)
        options = _OPTION.findall(listed[-1]) if listed else []
        if not options:
            return [OpenItem(at.id, "en", asked, target, solution, at.subject or at.stem)]
        labels, texts = [label for label, _ in options], [option for _, option in options]
        found = {"choices": [{"label": label, "text": each} for label, each in options] if all(labels) else texts,
                 "answer": target if all(labels) else _place(target, texts), "solution": solution}  # fmt: skip
        return [self.item(found, at, question=question)]


def _place(target: str, texts: list[str]) -> int:
    bare = [each.casefold() for each in texts]
    if target.casefold() not in bare:
        raise BrokenItem("target is not among the options")
    return bare.index(target.casefold())


def worked(text: str) -> Records:
    """Read the worked examples of a prompt: "Q: ... A: Let's think step by step. ... So the answer is (B)."."""
    for part in re.split(r"(?:^|\n)Q:\s*", text)[1:]:
        asked, mark, solution = part.partition("\nA:")
        steps = solution.replace(_STEP, "", 1).strip()
        if not mark or not (said := _SO.search(steps)):
            yield BrokenItem("a worked example has no answer")
        else:
            target = said[1].strip().removesuffix(".")
            yield {"input": asked.strip(), "target": target, "solution": steps[: said.start()].strip()}
