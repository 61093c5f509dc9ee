"""Word and pattern lists of the filters: text files, an entry a line, `#` begins a comment line."""

from importlib import resources


def read_words(name: str) -> list[str]:
    """Entries of the list `name` of this package."""
    lines = resources.files(__name__).joinpath(name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
