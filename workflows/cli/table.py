"""Rows of text as aligned columns, for terminals and pipes alike."""

from __future__ import annotations

from argosy.report.visible import columns

__all__ = ["columns", "duration"]


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m 05s`, `2h 10m`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"
