"""Where a comparison goes besides the terminal: an HTML file, and MLflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from argosy.comparison.compared import Compared
from argosy.comparison.page import Page
from argosy.errors import StepError
from argosy.storage import write_atomic
from argosy.tracking.result import is_web
from argosy.tracking.shipper import Unavailable
from workflows.comparison.asked import asked_of
from workflows.comparison.names import Names


def publish(found: Compared, names: Names, html: Path | None, *, mlflow: bool) -> Iterator[str]:
    """Write the page, log it; a line for each that says where.

    Raises:
        StepError: MLflow does not answer; the file is written by then.
    """
    if mlflow or is_web(names.server.uri):
        try:
            names.linked(found.entries)
        except StepError as error:
            if mlflow and html is None:
                raise
            yield f"no links to MLflow: {error}"
    page = Page.of(found)
    text = page.render(asked_of(found.entries, page.wanted()))
    if html is not None:
        write_atomic(html, text, durable=False)
        yield f"page: {html} ({len(text.encode()) / 1e6:.1f} MB)"
    if mlflow:
        yield _log(found, names, text)


def _log(found: Compared, names: Names, page: str) -> str:
    from argosy.comparison.tables import logged
    from argosy.tracking.compared import log_comparison

    try:
        where = log_comparison(names.server, logged(found, names.line_of(found.entries[0]), page))
    except Unavailable as error:
        raise StepError(f"MLflow at {names.results.where} does not answer: {error}; not all was logged: run it "
                        "again") from None
    return f"MLflow: {where}"
