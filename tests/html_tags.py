"""What an HTML page consists of, and whether its tags are closed in their turn and nothing is loaded."""

import re
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "img", "link", "hr", "line", "path", "circle"}  # tags that need no end, and may have one


class TagReader(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check_no_markup(html: str, scripts: int) -> TagReader:
    """Check that hostile text of the data is text: there is no tag or script of its own, nor a mark of direction."""
    reader = TagReader(html)
    tags = [tag for tag, _ in reader.tags]
    assert (tags.count("script"), tags.count("img")) == (scripts, 0)
    assert not set("\u202e\u2066") & set(html)
    return reader


def check_self_contained(html: str) -> set[str]:
    """Check that nothing is loaded and links lead to the page or to files beside it; the ids of the page."""
    reader = TagReader(html)
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", html)
    for tag, attributes in reader.tags:
        assert tag not in ("link", "img", "iframe", "base", "object")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    ids = [str(a["id"]) for _, a in reader.tags if a.get("id")]
    assert len(ids) == len(set(ids))
    targets = {a["href"] or "/" for tag, a in reader.tags if tag == "a"}
    assert not [target for target in targets if target.startswith("/")]
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    return set(ids)
