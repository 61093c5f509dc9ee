"""The figure of `python -m benchmarks.contamination_size`: AUC of items by exposures, a line for each model."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from argosy.evidence.report.chart import Chart, Drawing, Series, draw
from benchmarks.contamination.groups import PUBLISHED

FIGURE = Path(__file__).resolve().parents[2] / "docs/figures/contamination-size.svg"
NAMES = {"mmlu": "25 M from random weights, MMLU", "openbookqa": "25 M from random weights, OpenBookQA",
         "lora": "SmolLM2-135M, LoRA", "full": "SmolLM2-135M, in full"}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b4578f")
NUDGE = 0.05  # so that the error bars of two models do not cover each other


def draw_figure(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Write the figure."""
    series = [_series(NAMES[run], n, rows[run]) for n, run in enumerate(NAMES) if run in rows]
    exposures = sorted({row["exposures"] for found in rows.values() for row in found if row["kind"] == PUBLISHED})
    chart = Chart("AUC of seen against unseen items by exposures", "", "exposures", series, level=(0.5, "chance"),
                  x_text={math.log2(n): str(n) for n in exposures}, own_ticks=True)
    FIGURE.write_text(svg(draw(chart)), encoding="utf-8")


def _series(name: str, number: int, found: Sequence[Mapping[str, Any]]) -> Series:
    seen = [(row["exposures"], row["text_order"]) for row in found if row["kind"] == PUBLISHED
            and row["source"] != "facts"]
    points = [(math.log2(n) + NUDGE * number, area["auc"]) for n, area in seen]
    return Series(name, points, [(area["auc"] - area["error"], min(1.0, area["auc"] + area["error"]))
                                 for _, area in seen])


def svg(d: Drawing) -> str:
    """The drawing as a file of its own."""
    level = d.level[0] if d.level else 0.0
    parts = [f'<line x1="46" x2="448" y1="{y}" y2="{y}" stroke="#ddd"/>'
             f'<text x="40" y="{y + 4}" text-anchor="end">{text}</text>' for y, text in d.y_ticks]
    parts += [f'<text x="{x}" y="236" text-anchor="middle">{text}</text>' for x, text in d.x_ticks]
    parts.append(f'<line x1="46" x2="448" y1="{level}" y2="{level}" stroke="#888" stroke-dasharray="4 3"/>')
    for number, (name, _, path, dots) in enumerate(d.lines):
        colour, y = COLOURS[number], 262 + 14 * number
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts += [f'<circle cx="{x}" cy="{at}" r="2.6" fill="{colour}"/>' for x, at in dots]
        parts.append(f'<rect x="50" y="{y - 5}" width="16" height="3" fill="{colour}"/><text x="72" y="{y}">'
                     f"{escape(name)}</text>")
    parts += [f'<path d="M{x} {low}V{high}" stroke="{COLOURS[colour]}"/>' for colour, x, low, high in d.bars]
    height = 262 + 14 * len(d.lines)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 460 {height}" font-family="sans-serif" '
            f'font-size="10">\n<rect width="460" height="{height}" fill="#fff"/>\n'
            f'<text x="46" y="14" font-weight="bold">{escape(d.chart.title)}</text>\n'
            f'<text x="448" y="249" text-anchor="end">{escape(d.chart.x_name)}</text>\n'
            + "\n".join(parts) + "\n</svg>\n")
