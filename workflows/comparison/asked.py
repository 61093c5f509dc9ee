"""The text of questions that a page shows, made again from the suites that asked them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.comparison.differing import Asked, Key
from argosy.comparison.entry import Entry
from argosy.errors import ArgosyError
from argosy.step_files import RUN
from argosy.storage import read_record

if TYPE_CHECKING:
    from argosy.evaluation.suite import Suite

_ROOT = Path(__file__).parent.parent.parent
Source = tuple[str, str, int, int]  # suite (a name or a file), data step's directory, seed, limit (0: none)


def asked_of(entries: Sequence[Entry], wanted: Sequence[Key]) -> dict[Key, Asked]:
    """Those that can be made again; a page without the others is still a page."""
    from evals.prompts import questions

    found: dict[Key, Asked] = {}
    for suite, data, seed, limit in sorted({_source(path) for e in entries for path in e.chosen.evaluations}):
        left = [key for key in wanted if key not in found]
        if not suite or not left:
            continue
        try:
            made = questions(_load(suite), Path(data or "."), seed, left, limit or None)
        except (ArgosyError, OSError):
            continue  # the suite, or its data, is not here any more
        found |= {key: Asked(question.prompt, tuple(question.continuations)) for key, question in made.items()}
    return found


def _source(evaluation: Path) -> Source:
    settings = read_record(evaluation / RUN).get("config", {})
    suite = settings.get("suite_file") or settings.get("suite") or ""
    seed, limit = int(settings.get("seed") or 0), int(settings.get("limit") or 0)
    return str(suite), str(settings.get("data") or ""), seed, limit


def _load(suite: str) -> Suite:
    from argosy.evaluation.suite import load_suite

    is_file = suite.endswith((".yaml", ".yml"))
    return load_suite(suite, suite if is_file else "", [_ROOT / "evals/suites", _ROOT / "probes/suites"])
