"""No JSON where JSON was asked for."""

from __future__ import annotations

import json
import re

from argosy.quality.rule import Generated

_ASKED = re.compile(r"json", re.IGNORECASE)
_FENCED = re.compile(r"^```(?:json)?\s*\n(.*?)\n?```$", re.DOTALL | re.IGNORECASE)


def fault(generated: Generated) -> bool | None:
    """The answer (or what its code fence holds) is no JSON object or list; None where none was asked for."""
    if not _ASKED.search(generated.prompt):
        return None
    text = generated.text.strip()
    fenced = _FENCED.match(text)
    try:
        return not isinstance(json.loads(fenced[1] if fenced else text), dict | list)
    except (ValueError, RecursionError):
        return True
