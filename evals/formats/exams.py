"""Examinations: MMLU, C-Eval and CMMLU as CSV files, one a subject; ARC and OpenBookQA with labelled options."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from argosy.core.errors import InputError
from evals.formats import At, Format
from evals.items import AnyItem, BrokenItem
from evals.records import Fields, Record, Records, csv_records, csv_rows, options, text

_ROW = "row is not question, choices, letter or index"


class Mmlu(Format):
    """Rows of question, options and the right one's letter (or index from 0), a file a subject; no header, or one
    that begins with `question` and ends with `answer`. The subject is in the file's name (`anatomy_test.csv`)."""

    name = "mmlu"
    suffixes = (".csv",)
    first = 0
    a_file_a_subject = True

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        for number, row in enumerate(csv_rows(path, encoding)):
            if isinstance(row, BrokenItem):
                yield row
                continue
            named = bool(row) and row[-1].strip().lower() == "answer"
            if number == 0 and named and row[0].strip().lower() != "question":
                raise InputError(f"{path} begins with {','.join(row)}: say its format (ceval, truthfulqa_mc1)")
            if number == 0 and named:
                yield {"header": True}
            elif len(row) < 4:
                yield BrokenItem(_ROW)
            else:
                yield {"question": row[0], "choices": row[1:-1], "answer": row[-1]}

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """Read one item; none of a header."""
        return [] if "header" in record else [self.item(record, at)]


class CEval(Format):
    """Columns question, A, B, C, D, answer in any case and order, others ignored; a file a subject (`law_val.csv`)."""

    name = "ceval"
    lang = "zh"
    suffixes = (".csv",)
    fields = Fields(choices=tuple("abcdefgh"), id="", solution="explanation")
    a_file_a_subject = True

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """Read a record a row. Raises InputError: answers are absent, as in C-Eval's test split, or another column."""
        try:
            yield from csv_records(path, encoding, ("question", "a", "b", "answer"))
        except InputError as error:
            hint = "; C-Eval's test split is published without answers: take its val split"
            raise InputError(f"{error}{hint if 'answer' in str(error).partition(';')[0] else ''}") from None

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        record = {str(name).lower(): value for name, value in record.items()}
        text(record, "answer")
        return [self.item(record, at)]


class Cmmlu(CEval):
    """CMMLU's columns are named as C-Eval's are, but for their case."""

    name = "cmmlu"


class Arc(Format):
    """ARC (Clark et al., 2018): `{"id", "question": {"stem", "choices": [{"label", "text"}]}, "answerKey"}`, or as
    Hugging Face has it: `question` (OpenBookQA: `question_stem`) and `choices: {"label": [...], "text": [...]}`.
    Labels are A-E or 1-5; the right option is the one whose label is `answerKey`."""

    name = "arc"
    fields = Fields(question="stem", answer="answerKey")

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        question = record.get("question", record.get("question_stem"))
        inner = question if isinstance(question, Mapping) else {"stem": question, "choices": record.get("choices")}
        if not options(inner, "choices").labels:
            raise BrokenItem("choices are not labels with texts")
        text(record, "answerKey")
        return [self.item({**record, **inner}, at)]


class OpenBookQA(Arc):
    """OpenBookQA (Mihaylov et al., 2018) has ARC's fields."""

    name = "openbookqa"
