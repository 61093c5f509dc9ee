"""Trees of files: written with the folders that they need, and read."""

from collections.abc import Mapping
from pathlib import Path


def write_file(path: Path, content: str | bytes) -> Path:
    """Write a file, with the folders above it; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_files(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files, named by their paths below `root`; returns `root`."""
    for name, content in files.items():
        write_file(root / name, content)
    return root


def read_files(root: Path) -> dict[str, bytes]:
    """The files below `root`, named by their paths there."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
