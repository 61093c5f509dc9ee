"""Arrow: the tables of `save_to_disk` of Hugging Face datasets, as streams or files."""

from collections.abc import Iterator
from typing import IO

from argosy.core.lazy import pa
from argosy.core.store.remote import open_file
from argosy.corpus.data.jsonl import Damaged, Reject
from argosy.corpus.data.readers import Reader, Record, Span
from argosy.corpus.data.readers.parquet import ROWS, rows
from argosy.corpus.data.sources import InputFile, SourceConfig

_END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream


class Arrow(Reader):
    """Arrow's IPC, as a stream or a file."""

    name = "arrow"
    suffixes = (".arrow", ".feather")
    names_channels = True
    packed = False
    unit = "row"

    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Reject]:
        """Yield the rows of the file."""
        row = 0
        try:
            with open_file(file.path) as raw:
                is_file = raw.read(6) == b"ARROW1"
                raw.seek(0)
                if is_file:
                    opened = pa.ipc.open_file(raw)
                    batches = (opened.get_batch(index) for index in range(opened.num_record_batches))
                else:
                    batches = iter(pa.ipc.open_stream(raw))
                for whole in batches:
                    for start in range(0, whole.num_rows, ROWS):
                        batch = whole.slice(start, ROWS)
                        yield from rows(batch, row, file, config)
                        row += batch.num_rows
                if not is_file and not _ends(raw):  # which pyarrow takes for an end
                    raise Damaged("damaged or cut off", "the stream's end is missing")
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise Damaged("damaged or cut off", str(error)) from error


def _ends(raw: IO[bytes]) -> bool:
    raw.seek(0, 2)
    raw.seek(max(0, raw.tell() - len(_END)))
    return raw.read() == _END
