"""A local directory that holds a part of what is below a URI."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from workflows.argo.remote.files import Entry, Remote
from workflows.argo.remote.parallel import each
from workflows.argo.remote.snapshot import Stamp, scan


class Mirror:
    """Fetches what it is asked for; sends what has changed since; deletes nothing.

    Args:
        root: the store's directory in this pod, whose paths are those below the URI.
    """

    def __init__(self, remote: Remote, root: Path) -> None:
        self.remote, self.root = remote, root
        self._known: dict[str, Stamp] = {}

    def pull(self, entries: Mapping[str, Entry]) -> int:
        """Fetch files; returns how many bytes."""
        each(lambda name: self._pull(name, entries[name]), entries, lambda name: entries[name].size)
        return sum(entry.size for entry in entries.values())

    def pull_below(self, *folders: str, wanted: Callable[[str], bool] = lambda name: True) -> int:
        """Fetch what is below some directories."""
        found: dict[str, Entry] = {}
        each(lambda folder: found.update(self.remote.list(folder)), folders)
        return self.pull({name: entry for name, entry in found.items() if wanted(name)})

    def push(self, *folders: str) -> int:
        """Send what is below directories and was not fetched as it is now; returns how many files."""
        changed: dict[str, Stamp] = {}
        for folder in folders:
            for name, stamp in scan(self.root / folder).items():
                path = f"{folder}/{name}"
                if self._known.get(path) != stamp:
                    changed[path] = stamp
        each(lambda name: self.remote.upload(self.root / name, name), changed, lambda name: changed[name].size)
        self._known |= changed
        return len(changed)

    def note(self, names: Iterable[str]) -> None:
        """Take files as they are now for those of the store."""
        for name in names:
            found = os.stat(self.root / name)
            self._known[name] = Stamp(found.st_size, found.st_mtime_ns, found.st_ino)

    def _pull(self, name: str, entry: Entry) -> None:
        self.remote.download(name, entry, self.root / name)
        self.note([name])
