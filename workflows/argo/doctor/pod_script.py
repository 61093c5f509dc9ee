"""What a pod of `argosy doctor --deep` runs, with the standard library alone: it says what it can do, as JSON."""

import fcntl
import json
import os
import sys
import time
import urllib.request

TIMEOUT_S = 10


def main() -> None:
    """Print one line."""
    store, mlflow = sys.argv[1:3]
    found = {"time": time.time(), "uid": os.getuid(), "python": sys.version.split()[0]}
    for name, look in (("imports", _imports), ("store", lambda: _store(store)), ("mlflow", lambda: _reach(mlflow))):
        try:
            look()
            found[name] = ""
        except BaseException as error:
            found[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


def _imports() -> None:
    import workflows  # noqa: F401


def _store(folder: str) -> None:
    """Write, lock, and be locked out by another who holds the lock."""
    os.makedirs(folder, exist_ok=True)
    path = f"{folder}/.doctor-{os.getpid()}-{time.time_ns()}"
    try:
        with open(path, "w") as one, open(path) as other:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            raise OSError("flock does not hold others off: two pods would work on one step")
    finally:
        if os.path.exists(path):
            os.unlink(path)


def _reach(url: str) -> None:
    if url.startswith("http"):
        with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=TIMEOUT_S):
            pass


if __name__ == "__main__":
    main()
