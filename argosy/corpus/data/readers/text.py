"""Text, Markdown and reStructuredText, cut into documents at blank lines."""

from collections.abc import Iterator

from argosy.corpus.data.jsonl import Line, Reject
from argosy.corpus.data.readers import Reader, Record, Span
from argosy.corpus.data.readers.jsonl import reject, span_lines
from argosy.corpus.data.sources import InputFile, SourceConfig


class Text(Reader):
    """Text: a book is many documents and not one. Lines that are not UTF-8 are set aside."""

    name = "text"
    suffixes = (".txt", ".text", ".md", ".markdown", ".rst")
    cut_after = "blank"

    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Reject]:
        """Yield pieces of some `text_chars`; at twice as many, one ends without a blank line."""
        lines: list[Line] = []
        chars = 0
        for line in span_lines(file, span, config, keep_blank=True):
            if line.problem:
                yield reject(line, file, line.problem)
                continue
            lines.append(line)
            chars += len(line.text)
            full = chars >= config.text_chars and line.text.isspace()
            if full or chars >= 2 * config.text_chars:
                yield from _piece(lines, config)
                lines, chars = [], 0
        yield from _piece(lines, config)


def _piece(lines: list[Line], config: SourceConfig) -> Iterator[Record]:
    text = "".join(line.text for line in lines).strip()
    if text:
        held = sum(bool(line.text.strip()) for line in lines)
        yield Record(lines[0].number, lines[0].offset, {config.text_field: text}, held)
