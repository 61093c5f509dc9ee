"""A comparison beyond the terminal: an HTML file with the text of its questions, and MLflow."""

from collections.abc import Iterator
from pathlib import Path

from argosy.compare.entries import Compared
from argosy.compare.page.report import ComparisonPage
from argosy.errors import StepError
from argosy.store.files import write_atomic
from argosy.tracking.mlflow.read import is_web
from argosy.tracking.ship import Unavailable
from steps.compare import question_texts
from workflows.stored.names import Names


def publish(found: Compared, names: Names, html: Path | None, *, mlflow: bool) -> Iterator[str]:
    """Write the page, log it; a line for each that says where.

    Raises StepError: MLflow does not answer; the file is written by then."""
    if mlflow or is_web(names.server.uri):
        try:
            names.linked(found.entries)
        except StepError as error:
            if mlflow and html is None:
                raise
            yield f"no links to MLflow: {error}"
    page = ComparisonPage.of(found)
    evaluations = [path for e in found.entries for path in e.chosen.evaluations]
    text = page.render(question_texts(evaluations, page.wanted()))
    if html is not None:
        write_atomic(html, text, durable=False)
        yield f"page: {html} ({len(text.encode()) / 1e6:.1f} MB)"
    if mlflow:
        yield _log(found, names, text)


def _log(found: Compared, names: Names, page: str) -> str:
    from argosy.compare.page.record import logged
    from argosy.tracking.mlflow.comparisons import log_comparison

    try:
        where = log_comparison(names.server, logged(found, names.line_of(found.entries[0]), page))
    except Unavailable as error:
        raise StepError(f"MLflow at {names.results.where} does not answer: {error}; not all was logged: run it "
                        "again") from None
    return f"MLflow: {where}"
