"""JSONL: an object on each line."""

from collections.abc import Iterator
from typing import ClassVar

from argosy.corpus.data.jsonl import Line, Reject, lines, parse_object
from argosy.corpus.data.readers import Reader, Record, Span
from argosy.corpus.data.readers.encodings import as_in_file, open_text
from argosy.corpus.data.schemas import Document, ParseError
from argosy.corpus.data.sources import UTF8, InputFile, SourceConfig


class Jsonl(Reader):
    """JSONL. A broken line is set aside alone."""

    name = "jsonl"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    names_channels = True
    cut_after = "line"

    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Document | Reject]:
        """Yield the object of each line that is not blank."""
        for line in span_lines(file, span, config):
            yield self.record(line, file)

    def record(self, line: Line, file: InputFile) -> Record | Document | Reject:
        """Parse a line."""
        if not line.problem:
            try:
                return Record(line.number, line.offset, parse_object(line.text), raw=line.raw)
            except ParseError as error:
                return reject(line, file, str(error))
        return reject(line, file, line.problem)


def span_lines(file: InputFile, span: Span, config: SourceConfig, keep_blank: bool = False) -> Iterator[Line]:
    """Yield the lines of a span; where nobody has counted them, a span begins behind the end of a line, and has the
    lines that begin in it, numbered 0."""
    with open_text(file, config) as (stream, encoding):
        at, first = span.first.start, span.first.line
        if at and not first:
            stream.seek(at - 1)
            at += len(stream.readline()) - 1
            if span.end and at >= span.end:
                return
        elif at:
            stream.seek(at)
        for line in lines(stream, keep_blank=keep_blank, most=config.record_bytes, first=first or 1, offset=at,
                          end=span.end):
            if line.problem and encoding != UTF8:
                problem = f"invalid {encoding.upper()}" if line.problem == "invalid UTF-8" else line.problem
                line = line._replace(problem=problem, raw=as_in_file(line.raw, encoding))
            yield line if first else line._replace(number=0)


def reject(line: Line, file: InputFile, reason: str) -> Reject:
    """Set a line aside; where lines are not counted, its place is its first byte."""
    number, unit = (line.number, "line") if line.number else (line.offset, "byte")
    return Reject(file.label, number, reason, line.raw, unit=unit)
