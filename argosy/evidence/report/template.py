"""The templates of the pages: one HTML file each, with its styles and script; text of data never becomes markup."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.core.statistics.multiple import DECISION, NAMES, TABLE
from argosy.core.store.files import json_text
from argosy.corpus.text.display import letter, visible
from argosy.evidence.compare.changes import task_of
from argosy.evidence.compare.checkpoints import HELDOUT
from argosy.evidence.compare.test import Contrast
from argosy.evidence.compare.traces import Suspect
from argosy.evidence.compare.words import difference_text, meaning, p_text, short, tested_text, unit_of, value_text
from argosy.evidence.results.contamination import LIKELY, Seen, summary

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"


def render(name: str, **values: Any) -> str:
    """A page: the template `NAME.html.j2` with the styles of all pages and its own style and script, if it has any."""
    stem = name.partition(".")[0]
    css = _text("report.css") + (_text(f"{stem}.css") if stem != "report" else "")
    return _environment().get_template(name).render(css=css, script=_text(f"{stem}.js"), **values)


def as_script(value: Any) -> str:
    """JSON that cannot end the script element that it is in, nor reorder the page that shows it."""
    text = visible(json_text(value, separators=(",", ":")))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def hint(c: Contrast) -> str:
    """A change in a line, for the pointer that hovers."""
    n = f"{c.tested.n} questions of both, paired" if c.how == "paired" else c.how
    return f"{c.name}: {tested_text(c)} (corrected), {n}: {meaning(c)}"


def _text(file: str) -> str:
    path = _TEMPLATES / file
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _finalize(value: Any) -> Any:
    """Names of metrics, channels and models are data too: only markup of ours is shown as it is."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True, finalize=_finalize)
    environment.filters |= {
        "visible": visible, "points": lambda value: f"{100 * value:+.1f}", "pct": lambda value: f"{100 * value:.1f}",
        "score_x": _score_x, "p": p_text, "seen_rows": _seen_rows, "seen_summary": summary,
        "value": value_text, "short": short, "difference": difference_text, "meaning": meaning, "unit": unit_of,
        "channel": lambda c: c.name.removeprefix(HELDOUT), "form": lambda c: task_of(c)[1],
        "task": lambda c: task_of(c)[0],
    }  # fmt: skip
    environment.globals |= {"hint": hint, "letter": letter, "table_method": NAMES[TABLE],
                            "decision_method": NAMES[DECISION]}  # fmt: skip
    return environment


def _score_x(score: float) -> float:
    """The place of a contamination score, of 132 in width: those of -0.25 to 1 have room."""
    return round(2 + 128 * (min(1.0, max(-0.25, score)) + 0.25) / 1.25, 1)


def _seen_rows(tasks: Iterable[Suspect], labels: Mapping[str, str]) -> list[tuple[str, str, Seen]]:
    """(benchmark, checkpoint, whether it was seen); within a benchmark those that likely have seen it first."""
    return [(task.task, labels[s.checkpoint], s.seen) for task in tasks
            for s in sorted(task.suspicions, key=lambda s: s.level != LIKELY)]
