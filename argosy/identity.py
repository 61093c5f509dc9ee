"""Identities of files from outside: what they hold, wherever they lie."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

from argosy.config import Config, Role
from argosy.errors import InputError
from argosy.storage import read_record, write_json

_RACY_NS = 2_000_000_000  # a file this fresh may change again without a new mtime: its identity is not kept

External = str | list[str]


class Identities:
    """Identities of files and directories from outside: names and SHA-256 of bytes.

    A file's is `<name>:<sha256>`; a directory's is the SHA-256 of its sorted relative names and hashes. The name of a
    file counts because a step may use it (a channel's name, a document's source); where it lies does not.

    Args:
        cache: a JSON file that keeps hashes by path, size, mtime and inode; None keeps them in memory.
    """

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache
        self._known: dict[str, Any] = read_record(cache) if cache else {}
        self._changed = False

    def of_config(self, config: Config, where: str) -> dict[str, External]:
        """Identities of the external fields of `config` that are set; `where` names it in errors.

        Raises:
            InputError: a file does not exist or cannot be read.
        """
        found: dict[str, External] = {}
        for field in config.fields_with(Role.EXTERNAL):
            value = getattr(config, field)
            if isinstance(value, str) and value:
                found[field] = self.of_path(Path(value), f"{where}.{field}")
            elif value:
                found[field] = [self.of_path(Path(item), f"{where}.{field}") for item in value]
        return found

    def of_path(self, path: Path, field: str) -> str:
        """Identity of one file or directory."""
        try:
            if path.is_dir():
                return self._of_directory(path)
            return f"{path.name}:{self._of_file(path)}"
        except FileNotFoundError:
            todo = "a * is not expanded here: give the folder" if "*" in path.name else "correct the path"
            raise InputError(f"{field}: {path} does not exist (looked in {Path.cwd()}); {todo}") from None
        except OSError as error:
            raise InputError(f"{field}: cannot read {error.filename or path}: {error.strerror}") from None

    def save(self) -> None:
        """Keep the hashes for the next plan; a cache that cannot be written is no error."""
        if self._cache and self._changed:
            try:
                write_json(self._cache, self._known, durable=False)
            except OSError:
                return
            self._changed = False

    def _of_directory(self, path: Path) -> str:
        files = sorted((str(file.relative_to(path)), file) for file in path.rglob("*") if file.is_file())
        lines = "".join(f"{name}\0{self._of_file(file)}\n" for name, file in files)
        return "directory:" + hashlib.sha256(lines.encode()).hexdigest()

    def _of_file(self, path: Path) -> str:
        state = path.stat()
        key, stamp = os.path.abspath(path), [state.st_size, state.st_mtime_ns, state.st_ino]
        known = self._known.get(key)
        if known and known[:3] == stamp:
            return str(known[3])
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if time.time_ns() - state.st_mtime_ns > _RACY_NS:
            self._known[key] = [*stamp, digest]
            self._changed = True
        return digest
