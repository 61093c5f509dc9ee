"""The contamination benchmark's figure: one point a model, by what it was trained on. SVG by hand."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from argosy.report.chart import ticks

WIDTH, HEIGHT = 800, 340
WIDE = 5  # points beside each other
LEFT, RIGHT, TOP, BOTTOM = 56, 780, 40, 280
CLEAN, SEEN = "#2f6fb0", "#c2410c"
COLUMNS = ("clean", "other items", "informed", "strong", "1 exposure", "4 exposures", "16 exposures", "64 exposures")
NOTES = ("not trained on", "not trained on", "in another form", "in another form", *["as published"] * 4)


def figure(points: Sequence[tuple[str, float]], threshold: float) -> str:
    """The picture.

    Args:
        points: (column, z) of each case.
        threshold: the z above which contamination is likelier than not.
    """
    bend = max(10.0, 2 * threshold)  # above it, the scale is compressed: high scores need no telling apart
    shown = [_bent(z, bend) for _, z in points]
    low, high = min([*shown, -3.0]), max([*shown, threshold + 1]) * 1.04

    def y(z: float) -> float:
        return BOTTOM - (_bent(z, bend) - low) / (high - low) * (BOTTOM - TOP)

    marks = [value for value in ticks(low, bend, 6) if low <= value <= bend] + [
        value for value in (20.0, 40.0, 80.0, 160.0) if bend < value and _bent(value, bend) <= high]
    parts = [f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y(m):.1f}" y2="{y(m):.1f}" stroke="#e2e2e2"/>'
             f'<text x="{LEFT - 8}" y="{y(m) + 4:.1f}" text-anchor="end">{m:g}</text>' for m in marks]
    parts.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y(threshold):.1f}" y2="{y(threshold):.1f}" stroke="#555" '
                 'stroke-dasharray="5 4"/>'
                 f'<text x="{LEFT + 4}" y="{y(threshold) - 5:.1f}">contaminated as likely as not</text>')
    step = (RIGHT - LEFT) / len(COLUMNS)
    for number, column in enumerate(COLUMNS):
        centre = LEFT + step * (number + 0.5)
        values = sorted(z for name, z in points if name == column)
        colour = SEEN if "exposure" in column else CLEAN
        for n, z in enumerate(values):
            row = min(WIDE, len(values) - n // WIDE * WIDE)
            x = centre + (n % WIDE - (row - 1) / 2) * step / 9
            parts.append(f'<circle cx="{x:.1f}" cy="{y(z):.1f}" r="4" fill="{colour}" fill-opacity="0.75"/>')
        parts.append(f'<text x="{centre:.1f}" y="{BOTTOM + 20}" text-anchor="middle">{escape(column)}</text>'
                     f'<text x="{centre:.1f}" y="{BOTTOM + 36}" text-anchor="middle" fill="#777" font-size="10">'
                     f"{escape(NOTES[number])}</text>")
    title = "Contamination score (z; above 10 compressed) of small models, by what they were trained on"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
            f'<text x="{LEFT}" y="20" font-size="13">{escape(title)}</text>' + "".join(parts) + "</svg>\n")


def _bent(z: float, bend: float) -> float:
    return z if z <= bend else bend + (z - bend) * 0.15
