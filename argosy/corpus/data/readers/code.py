"""Source code: a document a file, with its language."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from argosy.corpus.data.jsonl import Reject
from argosy.corpus.data.readers import Reader, Record, Span, suffix_of
from argosy.corpus.data.readers.encodings import read_text
from argosy.corpus.data.sources import InputFile, SourceConfig

LANGUAGES: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_BY_SUFFIX = {suffix: language for language, suffixes in LANGUAGES.items() for suffix in suffixes.split()}


class Code(Reader):
    """Source code. It is kept as it is, with the spaces around it."""

    name = "code"
    suffixes = tuple(_BY_SUFFIX)
    unit = "record"

    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Reject]:
        """Yield the file."""
        text = read_text(file, config)
        if isinstance(text, Reject):
            yield text
        elif text and not text.isspace():
            suffix = suffix_of(file.path)
            language = _BY_SUFFIX[suffix if suffix in _BY_SUFFIX else suffix.rpartition(".")[0]]
            yield Record(1, 0, {config.text_field: text, "language": language})
