"""ARC, the archives from before WARC, through warcio."""

from collections.abc import Iterator

from argosy.core.store.remote import open_file
from argosy.corpus.data.jsonl import Damaged, Reject
from argosy.corpus.data.readers import Reader, Record, Span
from argosy.corpus.data.readers.warc import Page, page_record
from argosy.corpus.data.sources import InputFile, SourceConfig


class Arc(Reader):
    """ARC. What is broken in it breaks the rest of the file."""

    name = "arc"
    suffixes = (".arc",)
    unit = "record"

    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Reject]:
        """Yield the texts of its responses."""
        from warcio.archiveiterator import ArchiveIterator
        from warcio.exceptions import ArchiveLoadFailed

        number = 0
        with open_file(file.path) as stream:
            records = ArchiveIterator(stream)
            try:
                for record in records:
                    number += 1
                    body = record.content_stream().read(config.record_bytes + 1)
                    if record.rec_type == "arc_header":
                        continue
                    url, head = record.rec_headers.get_header("uri") or "", record.http_headers
                    if not body:
                        yield Reject(file.label, number, "record without content", b"", url, self.unit)
                        continue
                    status = head.get_statuscode() if head else ""
                    content = head.get_header("Content-Type") if head else record.rec_headers.get_header("content-type")
                    charset = (content or "").lower().partition("charset=")[2].strip("\"' ;")
                    page = Page(url, body, content or "", charset, int(status) if status.isdigit() else None,
                                record.rec_headers.get_header("archive-date") or "")
                    yield page_record(page, number, records.get_record_offset(), file, config)
            except (ArchiveLoadFailed, ValueError) as error:
                raise Damaged("damaged or cut off", str(error)) from error
