"""The templates of the pages: one HTML file each, with its styles and script; text of data never becomes markup.

Pages of a comparison render through argosy.evidence.report.tables, whose filters show contrasts and verdicts."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from argosy.core.language import catalogue
from argosy.core.store.files import json_text
from argosy.corpus.text.display import letter, short, visible

_TEMPLATES = Path(__file__).parent / "templates"


def render(name: str, words: Mapping[str, Callable[..., Any]] | None = None, **values: Any) -> str:
    """Render the template `NAME.html.j2` with the styles of all pages and its own, and its script (else the report's).

    `words`: further filters of the template, by name."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True, finalize=_finalize)
    environment.filters |= {"visible": visible, "pct": lambda value: f"{100 * value:.1f}", "short": short}
    environment.filters |= words or {}
    environment.globals |= {"letter": letter}
    stem = name.partition(".")[0]
    css = _text("report.css") + (_text(f"{stem}.css") if stem != "report" else "")
    script, known = _text(f"{stem}.js") or _text("report.js"), catalogue("pages")
    page = environment.get_template(name).render(css=css, script=script, **values)
    texts = as_script({"exact": known.exact, "patterns": known.patterns})
    head, end, tail = page.rpartition("</body>")  # in Chinese too
    return "".join([head, "<script>", _text("language.js").replace('"CATALOGUE"', texts), "</script>", end, tail])


def as_script(value: Any, *, exact: bool = False) -> str:
    """Write JSON that cannot end the script element that it is in, nor reorder the page that shows it.

    `exact`: the script gets the texts as they are, and makes them visible itself."""
    text = json_text(value, separators=(",", ":"))
    text = text if exact else visible(text)
    for character in {*"<>&\u2028\u2029", *(c for c in set(text) if visible(c) != c)} & set(text):
        units = character.encode("utf-16-be", "surrogatepass").hex()
        text = text.replace(character, "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)))
    return text


def _text(file: str) -> str:
    path = _TEMPLATES / file
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _finalize(value: Any) -> Any:
    """Names of metrics, channels and models are data too: only markup of ours is shown as it is."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
