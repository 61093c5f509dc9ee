"""The node's cache: what one pod has fetched, the others read; files in use stay; a killed pod leaves nothing wrong."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT
from tests.trees import write_files
from workflows.argo.objectstore.files import Entry, Remote
from workflows.argo.objectstore.mirror import SMALL, Mirror, NodeCache
from workflows.argo.profile.pods import mounts, volumes
from workflows.argo.profile.profile import Profile

LARGE = SMALL + 4
FETCHER = """
import sys, time
from pathlib import Path
from workflows.argo.objectstore.files import Remote
from workflows.argo.objectstore.mirror import NodeCache
cache, uri, local, then = sys.argv[1:]
fetch = Remote.fetch
def slow(self, name, entry, part):
    part.write_bytes(b"half")
    print("fetching", flush=True)
    time.sleep(float(then))
    fetch(self, name, entry, part)
Remote.fetch = slow
remote = Remote(uri, {})
assert NodeCache(Path(cache), 2**30).place(remote, "a", remote.list()["a"], Path(local))
"""


class Store(Remote):
    """A store that counts what is fetched."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"file://{folder}", {})
        self.folder = folder
        self.fetched: list[str] = []

    def fetch(self, name: str, entry: Entry, part: Path) -> None:
        self.fetched.append(name)
        super().fetch(name, entry, part)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three files, of which any two are more than the caches of these tests take, and a small one."""
    return Store(write_files(tmp_path / "bucket", {name: name * LARGE for name in "abc"} | {"small": "1"}))


def pod(store: Store, folder: Path, *names: str, size: int = 2**30) -> NodeCache:
    """A pod that reads some files, as long as what is returned lives."""
    near, entries = NodeCache(folder.parent / "cache", size), store.list()
    Mirror(store, folder, near).pull({name: entries[name] for name in names}, results=True)
    for name in names:
        assert (folder / name).read_bytes() == (store.folder / name).read_bytes()
    return near


def cached(tmp_path: Path) -> list[str]:
    """The first bytes of the files in the cache."""
    return sorted(path.read_text()[:1] for path in (tmp_path / "cache").iterdir() if path.name[0] != ".")


def test_the_second_pod_of_a_node_asks_for_small_and_changed_files_alone(store: Store, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        pod(store, tmp_path / folder, "a", "small")
    assert sorted(store.fetched) == ["a", "small", "small"]
    assert (tmp_path / "two/a").resolve().parent == tmp_path / "cache"
    assert not (tmp_path / "two/a").stat().st_mode & 0o222
    (store.folder / "a").write_bytes(b"x" * LARGE)
    os.utime(store.folder / "a", (1, 1))
    pod(store, tmp_path / "three", "a")
    assert store.fetched[3:] == ["a"]


def test_what_was_used_last_stays_and_what_is_in_use_is_never_evicted(store: Store, tmp_path: Path,
                                                                      capsys: pytest.CaptureFixture[str]) -> None:
    size = 5 * LARGE // 2
    for name in "ab":
        pod(store, tmp_path / "one", name, size=size)
    os.utime((tmp_path / "one/b").resolve(), (1, 1))
    held = pod(store, tmp_path / "two", "c", size=size)
    assert cached(tmp_path) == ["a", "c"]
    os.utime((tmp_path / "two/c").resolve(), (0, 0))  # the oldest, but a pod reads it
    also = pod(store, tmp_path / "three", "b", size=size)
    assert cached(tmp_path) == ["b", "c"]
    held.hand_on()
    with subprocess.Popen(["sleep", "600"], close_fds=False) as becomes:  # what the pod's process becomes
        del held
        pod(store, tmp_path / "four", "a", size=size)
        becomes.kill()
    assert not (tmp_path / "four/a").is_symlink()
    assert "full of files in use" in capsys.readouterr().out
    del also


def test_a_full_disk_or_a_folder_that_may_not_be_written_is_passed_by_with_one_warning(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fetch = Store.fetch

    def full(self: Store, name: str, entry: Entry, part: Path) -> None:
        if "cache" in part.parts:
            part.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device", str(part))
        fetch(self, name, entry, part)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "fetch", full)
        pod(store, tmp_path / "one", "a", "b")
    assert capsys.readouterr().out.count("no space left") == 1
    assert cached(tmp_path) == []
    write_files(tmp_path, {"other/cache": "a file"})
    pod(store, tmp_path / "other/one", "a", "b")
    assert capsys.readouterr().out.count("files are fetched without it") == 1


def test_of_two_pods_at_once_one_fetches_and_who_is_killed_leaves_nothing_wrong(store: Store, tmp_path: Path) -> None:
    def started(local: str, then: float) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", FETCHER, str(tmp_path / "cache"), store.uri, str(tmp_path / local), str(then)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    killed = started("killed", 600)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "fetching\n"
    pods = [started(name, 0.3) for name in ("one", "two")]
    killed.kill()
    killed.wait()
    said = [each.communicate(timeout=60)[0] for each in pods]
    assert [each.returncode for each in pods] == [0, 0]
    assert sorted(said) == ["", "fetching\n"]
    for name in ("one", "two"):
        assert (tmp_path / name).read_bytes() == b"a" * LARGE
    assert not (tmp_path / "killed").exists()
    assert cached(tmp_path) == ["a"]


def test_a_file_that_is_replaced_while_it_is_fetched_does_not_enter_the_cache(store: Store, tmp_path: Path) -> None:
    class Changing(Store):
        def fetch(self, name: str, entry: Entry, part: Path) -> None:
            super().fetch(name, entry, part)
            os.utime(self.folder / name, (1, 1))

    entry = store.list()["a"]
    assert not NodeCache(tmp_path / "cache", 2**30).place(Changing(store.folder), "a", entry, tmp_path / "one")
    assert cached(tmp_path) == []


def test_every_pod_mounts_the_cache_and_a_store_that_is_no_bucket_has_none() -> None:
    cache = {"host_path": "/var/cache/argosy", "size": "1Gi"}
    storage = {"uri": "s3://bucket/runs", "cache": cache}
    profile = Profile.model_validate({"storage": storage, "tracking": {"uri": "http://mlflow:5000"}})
    [host] = [each["hostPath"]["path"] for each in volumes(profile, profile.name) if "hostPath" in each]
    assert (host, "/cache") in [("/var/cache/argosy", each["mountPath"]) for each in mounts(profile)]
    with pytest.raises(ValueError, match="cache is for a store in an object store"):
        Profile.model_validate({"storage": {"claim": "c", "cache": cache}})
