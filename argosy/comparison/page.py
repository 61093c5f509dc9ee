"""A comparison as one HTML file: nothing from a network, and fast with many checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.comparison.compared import SECTIONS, Compared
from argosy.comparison.contrast import Contrast
from argosy.comparison.curves import axis, curves, spark
from argosy.comparison.differing import Asked, Differing, Key, differing, embedded
from argosy.comparison.fitted import letter
from argosy.comparison.forest import Scale
from argosy.comparison.kinds import families, kind_of
from argosy.comparison.overview import overview
from argosy.comparison.scatter import panels
from argosy.comparison.scoreboard import likely_seen, scoreboard
from argosy.comparison.sentences import sentences
from argosy.comparison.table import Row, rows
from argosy.comparison.text import TITLES, difference_text, meaning, p_text, unit_of, value_text
from argosy.comparison.watched import watched
from argosy.report import page as report_page
from argosy.report.chart import short

if TYPE_CHECKING:
    from jinja2 import Environment

FEW = 6  # lines of a list before the rest is folded
COLOURS = 8  # of entries; more use them again, dashed


@dataclass(frozen=True)
class Page:
    """A page in the making: the questions that it will show can be asked for before it is rendered."""

    found: Compared
    differing: Differing

    @classmethod
    def of(cls, found: Compared) -> Page:
        """Look for what differs."""
        return cls(found, differing(found.entries))

    def wanted(self) -> list[Key]:
        """Questions whose text is to be shown."""
        return self.differing.chosen

    def render(self, asked: Mapping[Key, Asked] | None = None) -> str:
        """The HTML.

        Args:
            asked: what the questions were, as far as they could be made again.
        """
        found, by = self.found, axis(self.found)
        labels = {e.chosen.key: e.label for e in found.entries}
        contrasts = [c for pair in found.pairs for c in pair.contrasts]
        data = embedded(self.differing, asked or {})
        every = rows(found)
        return _environment().get_template("compare.html.j2").render(
            found=found, by=by, labels=labels, sentences=sentences(found), scale=Scale(contrasts), sections=SECTIONS,
            titles=TITLES, few=FEW, rows=_by_family(every), board=scoreboard(every),
            spark=lambda n: spark(found.entries, n, by), charts=curves(found, by),
            panels={n: panels(pair) for n, pair in enumerate(found.pairs)},
            seen=found.seen, watched=watched(found, by), items=data,
            data=as_script({**data, "labels": [e.label for e in found.entries], **overview(found, by)}),
            css=report_page.STYLE.read_text(encoding="utf-8") + _file("compare.css"), script=_file("compare.js"))


def as_script(value: Any) -> str:
    """JSON that cannot end the script element it is in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _by_family(found: list[Row]) -> list[tuple[str, list[Row]]]:
    return [(family, [row for row in found if row.kind.family == family])
            for family in families([row.name for row in found])]


def _file(name: str) -> str:
    return (Path(report_page.__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _environment() -> Environment:
    environment = report_page.environment()
    environment.filters |= {"value": lambda name, value: value_text(name, value), "short": short,
                            "difference": difference_text, "meaning": meaning, "unit": unit_of}
    environment.globals |= {"kind_of": kind_of, "said": _said, "letter": letter, "likely_seen": likely_seen}
    return environment


def _said(c: Contrast) -> str:
    """All of a contrast in a line, for who hovers."""
    n = f", {c.tested.n} questions of both, paired" if c.how == "paired" else f", {c.how}"
    return (f"{c.name}: {value_text(c.name, c.before)} to {value_text(c.name, c.after)}, {difference_text(c)} "
            f"{unit_of(c.kind)}, p {p_text(c.p_adjusted)} (corrected){n}: {meaning(c)}")
