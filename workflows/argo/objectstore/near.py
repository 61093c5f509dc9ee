"""Places where a pod looks for results of other steps before it fetches them: the node's cache, or Fluid's volume."""

from pathlib import Path

from workflows.argo.objectstore.cache import NodeCache
from workflows.argo.objectstore.files import Entry, Remote
from workflows.argo.objectstore.mirror import SMALL, Near, link
from workflows.argo.profile.settings import Storage


def near(storage: Storage) -> Near | None:
    """Return what the profile says is near; None: pods fetch everything."""
    if storage.cache is not None:
        return NodeCache(Path(storage.cache.path), storage.cache.bytes)
    return FluidVolume(Path(storage.fluid.root)) if storage.fluid is not None else None


class FluidVolume:
    """The store as a Dataset of Fluid shows it, read-only below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._told = False

    def place(self, remote: Remote, name: str, entry: Entry, local: Path) -> bool:
        """Make `local` a link to a file of the volume. False: it is small, or the volume does not show it (yet)."""
        if entry.size <= SMALL:  # a request to the bucket is quicker than several to a file system of the network
            return False
        found = self._root / name
        try:
            if found.stat().st_size != entry.size:
                return False
        except FileNotFoundError:
            return self._without(f"{self._root} is not mounted") if not self._root.is_dir() else False
        except OSError as error:
            return self._without(str(error))
        local.parent.mkdir(parents=True, exist_ok=True)
        link(local, found)
        return True

    def _without(self, reason: str) -> bool:
        if not self._told:
            print(f"store: warning: fluid: {reason}; files are fetched from the bucket", flush=True)
        self._told = True
        return False
