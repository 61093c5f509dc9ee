"""HTML: the main text of a page, a document a file."""

import codecs
from collections.abc import Iterator
from typing import Any

from argosy.corpus.data.jsonl import Reject, open_binary
from argosy.corpus.data.readers import Reader, Record, Span
from argosy.corpus.data.readers.encodings import read_whole
from argosy.corpus.data.sources import InputFile, SourceConfig

_SHOWN = 1000


class Html(Reader):
    """HTML. Menus and footers are left out, as far as `data.source.html` finds them."""

    name = "html"
    suffixes = (".html", ".htm", ".xhtml")
    unit = "record"

    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Reject]:
        """Yield the text of the page."""
        with open_binary(file.path) as stream:
            raw = read_whole(stream, file, config)
        if isinstance(raw, Reject):
            yield raw
            return
        text, title = page_text(raw, "", config.html)
        if text.strip():
            yield Record(1, 0, {config.text_field: text} | ({"title": title} if title else {}))
        else:
            yield Reject(file.label, 1, "page without text", raw[:_SHOWN], unit=self.unit, fault=False)


def page_text(raw: bytes, charset: str, tool: str) -> tuple[str, str]:
    """Return the main text and the title of a page; `charset`: as the server says, "" where it does not.

    Browsers' rules hold for bytes that are no text in its encoding: they are replaced."""
    html = decode(raw, charset)
    if tool == "trafilatura":
        import trafilatura

        found: Any = trafilatura.bare_extraction(html, with_metadata=True)
        return (found.text or "", found.title or "") if found else ("", "")
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    tree = HTMLTree.parse(html)
    return extract_plain_text(tree, main_content=True, alt_texts=False), (tree.title or "").strip()


def decode(raw: bytes, charset: str = "") -> str:
    """Decode a page or text from the web: by its mark, as its server or its own head says, else as it seems."""
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5

    if raw.startswith(codecs.BOM_UTF8):
        return raw[3:].decode(errors="replace")
    encoding = map_encoding_to_html5(charset, fallback_utf8=False) if charset else None
    encoding = encoding or detect_encoding(raw, from_html_meta=True) or "utf-8"
    return str(bytes_to_str(raw, encoding, errors="replace"))
