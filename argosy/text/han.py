"""Traditional Chinese characters as simplified ones, one for one, for comparison: not a translation to read."""

from functools import cache
from importlib import resources


@cache
def simplified() -> dict[int, str]:
    """Return the simplified character of each traditional code point, as `str.translate` takes it."""
    lines = resources.files("argosy.text").joinpath("traditional.txt").read_text(encoding="utf-8").splitlines()
    groups = [line.split(" ") for line in lines if not line.startswith("#")]
    return {ord(old): new for before, after in groups for old, new in zip(before, after, strict=True)}
