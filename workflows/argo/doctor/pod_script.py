"""The script of a pod of `argosy doctor --deep`: it prints its abilities as JSON. Only a bucket takes our own code."""

import fcntl
import json
import os
import sys
import time
import urllib.request
from importlib import import_module

TIMEOUT_S = 10


def main() -> None:
    store, mlflow, uri, options = sys.argv[1:5]
    found: dict[str, object] = {"uid": os.getuid(), "python": sys.version.split()[0]}
    health = f"{mlflow.rstrip('/')}/health"
    for name, look in (
        ("imports", lambda: import_module("workflows")),
        ("store", (lambda: _bucket(uri, options)) if uri else (lambda: _store(store))),
        ("mlflow", lambda: mlflow.startswith("http") and urllib.request.urlopen(health, timeout=TIMEOUT_S).close()),
    ):  # fmt: skip
        try:
            look()
            found[name] = ""
        except BaseException as error:
            found[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


def _store(folder: str) -> None:
    """Write, lock, and see a second lock refused."""
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


def _bucket(uri: str, options: str) -> None:
    """Write, list, read, refuse to write again and delete, as pods do in a bucket."""
    from workflows.argo.objectstore.files import Remote

    remote, name, text = Remote(uri, json.loads(options)), f".doctor/{os.getpid()}-{time.time_ns()}", b"argosy"
    try:
        if not remote.create(name, text) or remote.read(name) != text or name not in remote.list(".doctor"):
            raise OSError("what was written there is not read or listed again")
        if remote.create(name, b"another"):
            raise OSError("it ignores If-None-Match: two pods would both take a lease; use a server that knows it")
    finally:
        remote.delete([name])
    if name in remote.list(".doctor"):
        raise OSError("what was deleted there is still listed")


if __name__ == "__main__":
    main()
