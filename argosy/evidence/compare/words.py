"""Numbers, lists and verdicts of a comparison in words."""

import math
from collections.abc import Sequence

from argosy.core.statistics.paired import Interval
from argosy.corpus.text.display import plain
from argosy.evidence.compare.metrics import Kind
from argosy.evidence.compare.test import Contrast


def percent(value: float) -> str:
    """`61.2 %`."""
    return f"{100 * value:.1f} %"


def points(of: Interval, *, sign: bool = True) -> str:
    """`+4.2 points [1.0, 7.4]`: percentage points."""
    return f"{100 * of.value:{'+' if sign else ''}.1f} points [{100 * of.low:.1f}, {100 * of.high:.1f}]"


def reverse(of: Interval) -> Interval:
    """The same difference, seen from the other side."""
    return Interval(-of.value, -of.high, -of.low)


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


TITLES = {
    "better": "Got better", "worse": "Forgotten or worse", "changed": "Changed (neither way is better)",
    "same": "No difference that matters", "cannot tell": "Cannot tell", "untested": "Not tested"}  # fmt: skip


PROMISE = "of what is called better or worse, 5 % is noise on average"  # by the correction of tables


def value_text(kind: Kind, value: float | None) -> str:
    """`61.2 %`, `1.234`; `–` where there is none."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value}"
    return f"{100 * value:.1f} %" if is_percent(kind, value) else plain(value)


def is_percent(kind: Kind, value: float = 0.0) -> bool:
    """Whether a value is shown in per cent."""
    return kind.share and -1 <= value <= 1


def change_text(c: Contrast) -> str:
    """`57.1 % to 79.2 %, +22.1 [+17.7, +26.5] points`: the same wherever a change is told."""
    values = f"{value_text(c.kind, c.before)} to {value_text(c.kind, c.after)}"
    return f"{values}, {difference_text(c)} {unit_of(c.kind)}".rstrip()


def tested_text(c: Contrast) -> str:
    """`change_text` with the corrected p-value."""
    return f"{change_text(c)}, p {p_text(c.p_adjusted)}"


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
    """The verdict on this metric in a few words."""
    if c.verdict == "same":
        return f"no difference beyond {amount(c, c.most)}"
    if c.verdict == "cannot tell":
        toward = {1: "better", -1: "worse", 0: "away"}[c.kind.sign * (1 if c.difference.value > 0 else -1)]
        if c.shown:
            return f"{toward}, perhaps by less than {amount(c, c.kind.matters or 0.0)}, which matter"
        if c.leans:
            return f"leans {toward}, not beyond the correction"
        return f"up to {amount(c, c.most)} possible" if math.isfinite(c.most) else "too few to say"
    return {"better": "better", "worse": "worse", "changed": "changed"}.get(c.verdict, c.how)


def amount(c: Contrast, size: float) -> str:
    """`2.1 points`, `0.012 bits a byte`."""
    scale, spec = _scale(c)
    return f"{scale * size:{spec}} {unit_of(c.kind)}".rstrip()


def unit_of(kind: Kind) -> str:
    unit = "points" if kind.share else kind.unit
    return f"{unit} from 0".lstrip() if kind.centred else unit


def _scale(c: Contrast) -> tuple[float, str]:
    """The factor of a shown difference, and its format."""
    if c.kind.share:
        return 100.0, ".1f"
    largest = max((abs(v) for v in (c.difference.value, c.difference.low, c.difference.high) if math.isfinite(v)),
                  default=0.0)
    if 0 < largest < 0.0005:
        return 1.0, ".1e"
    return 1.0, ".1f" if largest >= 100 else ".3f" if largest >= 0.01 else ".4f"
