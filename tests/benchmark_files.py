"""Benchmarks as they are published, made from the data beside the checkout, and the same rows as lm-eval reads them.

Data beside the checkout has some benchmarks rewritten as instructions: here they get their published fields again."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evals.formats import read_items
from evals.items import Item
from tests.shared_data import shared

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Published:
    """A task of lm-eval and the suite's task of the same items.

    Attributes:
        name: lm-eval's; `folder` below its tasks, where its YAML is.
        suite, task: ours; `files`: name below the benchmarks' folder -> lines or rows.
        rows: as lm-eval's dataset has them; `split`: the one it reads."""

    name: str
    folder: str
    suite: str
    task: str
    files: dict[str, Any]
    rows: Rows
    split: str = "test"

    @property
    def base(self) -> str:
        """Name of lm-eval's YAML file."""
        named = {"winogrande": "default", "social_iqa": "siqa"}
        return named.get(self.name, self.name.removeprefix("blimp_"))

    def write(self, root: Path) -> None:
        """The published files below `root`."""
        write_files(root, self.files)


def write_files(root: Path, files: dict[str, Any]) -> None:
    """Files of rows (CSV), of a value (JSON) or of lines (texts, or a JSON value each)."""
    for name, lines in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".csv":
            with open(path, "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(lines)
        elif path.suffix == ".json":
            path.write_text(json.dumps(lines, ensure_ascii=False), encoding="utf-8")
        else:
            texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
            path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


@cache
def _instructions(name: str, count: int) -> tuple[Item, ...]:
    path = shared("commonsense_mc") / f"dataset__{name}__test.json"
    found = read_items(path, None, "instructions").items
    return tuple(item for item in found if isinstance(item, Item))[:count]


def _labelled(item: Item) -> dict[str, list[str]]:
    return {"text": list(item.choices), "label": list("ABCDE"[: len(item.choices)])}


def openbookqa(count: int) -> Published:
    items = _instructions("openbookqa", count)
    rows = [{"id": i.id, "question_stem": i.question, "choices": _labelled(i), "answerKey": "ABCD"[i.answer]}
            for i in items]  # fmt: skip
    more = [{**line, "id": f"more/{n}"}
            for n, line in enumerate(stems(_instructions("openbookqa", 3 * count + 30)[3 * count :]))]
    return Published("openbookqa", "openbookqa", "openbookqa", "openbookqa",
                     {"openbookqa/test.jsonl": stems(items), "openbookqa/train.jsonl": more}, rows)  # fmt: skip


def arc_easy(count: int) -> Published:
    """ARC's fields; OpenBookQA's items, which are of the same kind."""
    items = _instructions("openbookqa", 2 * count)[count:]
    rows = [{"id": i.id, "question": i.question, "choices": _labelled(i), "answerKey": "ABCD"[i.answer]} for i in items]
    return Published("arc_easy", "arc", "arc", "arc_easy", {"arc/ARC-Easy-Test.jsonl": stems(items)}, rows)


def stems(items: Sequence[Item]) -> Rows:
    return [{"id": i.id, "answerKey": "ABCD"[i.answer], "question": {"stem": i.question, "choices": [
        {"label": label, "text": text} for label, text in zip("ABCD", i.choices, strict=True)]}} for i in items]


def piqa(count: int) -> Published:
    items = _instructions("piqa", count)
    lines = [{"goal": i.question, "sol1": i.choices[0], "sol2": i.choices[1]} for i in items]
    labels = [str(i.answer) for i in items]
    rows = [{**line, "label": i.answer} for line, i in zip(lines, items, strict=True)]
    files = {"piqa/valid.jsonl": lines, "piqa/valid-labels.lst": labels}
    return Published("piqa", "piqa", "piqa", "piqa", files, rows, "validation")


def social_iqa(count: int) -> Published:
    lines = []
    items = _instructions("social_i_qa", count)
    for i in items:
        context, _, question = i.question.rpartition(". ")
        context = f"{context}." if context else "So it was."
        lines.append({"context": context, "question": question,
                      **{f"answer{letter}": text for letter, text in zip("ABC", i.choices, strict=True)}})  # fmt: skip
    labels = [str(i.answer + 1) for i in items]
    rows = [{**line, "label": label} for line, label in zip(lines, labels, strict=True)]
    files = {"siqa/dev.jsonl": lines, "siqa/dev-labels.lst": labels}
    return Published("social_iqa", "siqa", "siqa", "siqa", files, rows, "validation")


def winogrande(count: int) -> Published:
    items = [i for i in _instructions("winogrande", count + 5) if not i.question.endswith("_")][:count]
    rows = [{"qID": f"{i.id}-1", "sentence": i.question, "option1": i.choices[0], "option2": i.choices[1],
             "answer": str(i.answer + 1)} for i in items]  # fmt: skip
    return Published("winogrande", "winogrande", "winogrande", "winogrande", {"winogrande/dev.jsonl": rows}, rows,
                     "validation")  # fmt: skip


def mathqa(count: int) -> Published:
    items = [i for i in _instructions("mathqa", count + 20) if len(i.choices) == 5][:count]
    rows = [{"Problem": i.question, "correct": "abcde"[i.answer], "Rationale": "",
             "options": " , ".join(f"{letter} ) {text}" for letter, text in zip("abcde", i.choices, strict=True))}
            for i in items]  # fmt: skip
    return Published("mathqa", "mathqa", "mathqa", "mathqa", {"mathqa/test.json": rows}, rows)


def mmlu(subject: str, count: int) -> Published:
    folder = shared("mmlu")
    files: dict[str, Any] = {}
    for split in ("test", "dev"):
        with open(folder / f"data__mmlu__{split}__{subject}_{split}.csv", encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row[0] != "question"]
        files[f"mmlu/{split}/{subject}_{split}.csv"] = [[*row[:-1], "ABCD"[int(row[-1])]] for row in rows[:count]]
    rows = [{"question": row[0], "choices": row[1:-1], "answer": "ABCD".index(row[-1])}
            for row in files[f"mmlu/test/{subject}_test.csv"]]  # fmt: skip
    return Published(f"mmlu_{subject}", "mmlu/default", "mmlu", "mmlu", files, rows)


def mmlu_dev(published: Published) -> Rows:
    (rows,) = (rows for name, rows in published.files.items() if "/dev/" in name)
    return [{"question": row[0], "choices": row[1:-1], "answer": "ABCD".index(row[-1])} for row in rows]


def _chinese(count: int) -> list[Item]:
    path = shared("gaokao_bench") / "Data__Objective_Questions__2010-2022_History_MCQs.json"
    return [i for i in read_items(path, count, "gaokao").items if isinstance(i, Item)]


def _lines(items: Sequence[Item]) -> list[list[str]]:
    return [[str(n), i.question, *i.choices, "ABCD"[i.answer]] for n, i in enumerate(items)]


def ceval(count: int) -> Published:
    """C-Eval's fields; questions of GAOKAO-Bench."""
    lines, name, header = _lines(_chinese(count)), "high_school_history", ["id", "question", *"ABCD", "answer"]
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    files = {f"ceval/val/{name}_val.csv": [header, *lines]}
    return Published(f"ceval-valid_{name}", "ceval", "ceval", "ceval", files, rows, "val")


def cmmlu(count: int) -> Published:
    """CMMLU's fields; questions of GAOKAO-Bench."""
    lines, header = _lines(_chinese(2 * count)[count:]), ["Question", *"ABCD", "Answer"]
    rows = [dict(zip(["id", *header], line, strict=True)) for line in lines]
    files = {"cmmlu/test/chinese_history.csv": [["", *header], *lines]}
    return Published("cmmlu_chinese_history", "cmmlu", "cmmlu", "cmmlu", files, rows)


def truthfulqa(part: int, count: int) -> Published:
    with open(shared("truthfulqa") / "datasets__TruthfulQA.csv", encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))[: count + 1]
    rows = []
    for _, _, question, best, correct, incorrect, _ in lines[1:]:
        right = [best] if part == 1 else _split(correct)
        wrong = _split(incorrect)
        targets = {"choices": right + wrong, "labels": [1] * len(right) + [0] * len(wrong)}
        rows.append({"question": question, f"mc{part}_targets": targets})
    return Published(f"truthfulqa_mc{part}", "truthfulqa", "truthfulqa", f"truthfulqa_mc{part}",
                     {"truthfulqa/TruthfulQA.csv": lines}, rows, "validation")  # fmt: skip


def _split(joined: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in joined.split(";") if part.strip()))


def blimp(name: str, count: int) -> Published:
    text = (shared("blimp") / f"data__{name}.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()[:count]]
    return Published(f"blimp_{name}", "blimp", "blimp_choice", "blimp", {f"blimp/{name}.jsonl": rows}, rows, "train")


def gsm8k(count: int, shots: int = 5) -> Published:
    text = (shared("gsm8k") / "grade_school_math__data__test.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()[: count + shots]]
    files = {"gsm8k/test.jsonl": rows[shots:], "gsm8k/train.jsonl": rows[:shots]}
    return Published("gsm8k", "gsm8k", "gsm8k", "gsm8k", files, rows[shots:])


def hellaswag(count: int) -> Published:
    """HellaSwag's fields and marks; situations of Social IQa."""
    rows = [{"ind": n, "activity_label": "Meeting  people", "ctx_a": f"[header] {i.question} [title] Then",
             "ctx_b": "they", "source_id": "v", "label": str(i.answer),
             "endings": [*(f"{text} [step] and [title] done" for text in i.choices), "sleep."]}
            for n, i in enumerate(_instructions("social_i_qa", count))]  # fmt: skip
    files = {"hellaswag/hellaswag_val.jsonl": rows}
    return Published("hellaswag", "hellaswag", "hellaswag", "hellaswag", files, rows, "validation")


def gaokao(count: int) -> Published:
    """A few records of each file that has a format of its own."""
    folder, files = shared("gaokao_bench"), {}
    for name in ("2010-2022_History_MCQs", "2010-2022_Physics_MCQs", "2010-2013_English_MCQs",
                 "2010-2022_Chinese_Modern_Lit", "2010-2022_English_Fill_in_Blanks", "2010-2022_English_Reading_Comp",
                 "2012-2022_English_Cloze_Test"):  # fmt: skip
        text = (folder / f"Data__Objective_Questions__{name}.json").read_text(encoding="utf-8")
        size = count if "MCQs" in name else 1
        files[f"gaokao_bench/Data/Objective_Questions/{name}.json"] = {"example": json.loads(text)["example"][:size]}
    return Published("gaokao", "", "gaokao", "gaokao", files, [])


def texts(published: Sequence[Published]) -> list[str]:
    """What a tokenizer is trained on."""
    return [json.dumps(row, ensure_ascii=False) for task in published for row in task.rows]
