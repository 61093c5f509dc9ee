"""CSV and TSV with a line of names at the top."""

import csv
from collections import deque
from collections.abc import Iterator

from argosy.corpus.data.jsonl import Line, Reject
from argosy.corpus.data.readers import Reader, Record, Span, check_columns
from argosy.corpus.data.readers.jsonl import reject, span_lines
from argosy.corpus.data.sources import InputFile, SourceConfig


class Csv(Reader):
    """CSV with commas, TSV with tabs; quotes as RFC 4180 has them. A broken row is set aside, and the line behind its
    first is tried as the next row."""

    name = "csv"
    suffixes = (".csv", ".tsv")
    names_channels = True

    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Reject]:
        """Yield a record for each row."""
        csv.field_size_limit(max(csv.field_size_limit(), config.record_bytes))
        rows = _Rows(span_lines(file, span, config, keep_blank=True), "\t" if ".tsv" in file.path.lower()[-8:] else ",",
                     config.record_bytes)
        names: list[str] | None = None
        for lines, values, problem in rows:
            first = lines[0]
            if problem:
                yield reject(first, file, problem)
            elif names is None:
                names = values
                check_columns(names, config.text_field, first.raw)
            elif len(values) != len(names):
                raw = b"".join(line.raw for line in lines)
                yield Reject(file.label, first.number, f"row of another length than the {len(names)} names", raw)
            else:
                yield Record(first.number, first.offset, dict(zip(names, values, strict=True)),
                             raw=b"".join(line.raw for line in lines))


class _Rows:
    """Rows with the lines that hold them; or the first line of what is none, with the reason."""

    def __init__(self, lines: Iterator[Line], delimiter: str, most: int) -> None:
        self._lines, self._delimiter, self._most = lines, delimiter, most
        self._again: deque[Line] = deque()  # lines of a broken row behind its first

    def __iter__(self) -> Iterator[tuple[list[Line], list[str], str]]:
        while (line := self._next()) is not None:
            if line.problem:
                yield [line], [], line.problem
            elif line.text and not line.text.isspace():
                yield self._row(line)

    def _next(self) -> Line | None:
        return self._again.popleft() if self._again else next(self._lines, None)

    def _row(self, first: Line) -> tuple[list[Line], list[str], str]:
        held = [first]

        def texts() -> Iterator[str]:
            yield first.text
            size = len(first.raw)
            while (line := self._next()) is not None:
                held.append(line)
                size += len(line.raw)
                if line.problem or size > self._most:
                    return
                yield line.text

        try:
            values = next(csv.reader(texts(), delimiter=self._delimiter, strict=True))
        except (csv.Error, StopIteration) as error:
            self._again.extendleft(reversed(held[1:]))
            reason = "quote that does not end" if "end of data" in str(error) else "broken quotes"
            return [first], [], reason
        return held, values, ""
