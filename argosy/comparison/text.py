"""Numbers of a comparison in words: values, differences, and what a verdict means."""

from __future__ import annotations

import math

from argosy.comparison.contrast import Contrast
from argosy.comparison.kinds import Kind, kind_of

TITLES = {
    "better": "Got better", "worse": "Forgotten or worse", "changed": "Changed (neither way is better)",
    "same": "No difference that matters", "cannot tell": "Cannot tell", "untested": "Not tested",
}  # fmt: skip


def value_text(name: str, value: float | None) -> str:
    """`61.2 %`, `1.234`; `–` where there is none."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value}"
    if is_percent(name, value):
        return f"{100 * value:.1f} %"
    return plain(value)


def is_percent(name: str, value: float = 0.0) -> bool:
    """Whether a metric is shown in per cent."""
    return kind_of(name).share and -1 <= value <= 1


def plain(value: float) -> str:
    """Three decimals, fewer of what is large, and a power of ten of what is tiny."""
    if value and (abs(value) < 0.001 or abs(value) >= 1e6):
        return f"{value:.2e}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}" if abs(value) < 10_000 else f"{value:,.0f}"


def difference_text(c: Contrast) -> str:
    """`+4.2 [1.0, 7.4]`: points of a share, else the metric's own unit."""
    scale, spec = _scale(c)
    d = c.difference
    if math.isnan(d.low):
        return "–" if math.isnan(d.value) else f"{scale * d.value:+{spec}}"
    return f"{scale * d.value:+{spec}} [{scale * d.low:+{spec}}, {scale * d.high:+{spec}}]"


def p_text(p: float | None) -> str:
    """`0.003`, `<0.001`."""
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def meaning(c: Contrast) -> str:
    """What the verdict says of this metric, in a few words."""
    if c.verdict == "same":
        return f"no difference beyond {amount(c, c.most)}"
    if c.verdict == "cannot tell":
        if c.leans:
            toward = {1: "better", -1: "worse", 0: "away"}[_sign(c)]
            return f"leans {toward}, not beyond the correction"
        return f"up to {amount(c, c.most)} possible" if math.isfinite(c.most) else "too few to say"
    return {"better": "better", "worse": "worse", "changed": "changed"}.get(c.verdict, c.how)


def amount(c: Contrast, size: float) -> str:
    """`2.1 points`, `0.012 bits a byte`."""
    scale, spec = _scale(c)
    return f"{scale * size:{spec}} {unit_of(c.kind)}".rstrip()


def unit_of(kind: Kind) -> str:
    """Of differences."""
    unit = "points" if kind.share else kind.unit
    return f"{unit} from 0".lstrip() if kind.centred else unit


def _sign(c: Contrast) -> int:
    return c.kind.better * (1 if c.difference.value > 0 else -1)


def _scale(c: Contrast) -> tuple[float, str]:
    """What to multiply with, and how to write it."""
    if c.kind.share:
        return 100.0, ".1f"
    largest = max((abs(v) for v in (c.difference.value, c.difference.low, c.difference.high) if math.isfinite(v)),
                  default=0.0)
    if 0 < largest < 0.0005:
        return 1.0, ".1e"
    return 1.0, ".1f" if largest >= 100 else ".3f" if largest >= 0.01 else ".4f"
