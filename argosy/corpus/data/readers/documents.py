"""Documents that the pipeline itself wrote, such as the demo's: they keep their ids."""

from argosy.corpus.data.jsonl import Line, Reject, parse_object
from argosy.corpus.data.readers import Record
from argosy.corpus.data.readers.jsonl import Jsonl, reject
from argosy.corpus.data.schemas import Document, ParseError
from argosy.corpus.data.sources import InputFile


class Documents(Jsonl):
    """JSONL of the data step's own; no suffix leads here."""

    name = "documents"
    suffixes = ()

    def record(self, line: Line, file: InputFile) -> Record | Document | Reject:
        """Make the document of a line as it was written."""
        try:
            return Document.from_record(parse_object(line.text))
        except (ParseError, KeyError) as error:
            return reject(line, file, line.problem or str(error))
