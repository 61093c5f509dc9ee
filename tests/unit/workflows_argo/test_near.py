"""Data near the pods: a node's cache holds for all what one pod has fetched, and Fluid's volume is read as it is."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from argosy.core.store.step_files import OUTPUTS
from tests.unit.workflows_argo.test_objectstore import NODE, planned_node
from workflows.argo.manifests.containers import mounts, volumes
from workflows.argo.manifests.documents import manifests
from workflows.argo.objectstore import cache
from workflows.argo.objectstore.cache import NodeCache, make_room
from workflows.argo.objectstore.files import Entry, Remote
from workflows.argo.objectstore.mirror import SMALL, FluidVolume, Mirror
from workflows.argo.objectstore.records import pull_upstream
from workflows.argo.profile.profile import Profile, load_profile

LARGE = SMALL + 4
ROOT = Path(__file__).parents[3]
FETCHER = """
import sys, time
from pathlib import Path
from workflows.argo.objectstore.cache import NodeCache
from workflows.argo.objectstore.files import Remote
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

    def add(self, name: str, data: bytes) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_bytes(data)

    def fetch(self, name: str, entry: Entry, part: Path) -> None:
        self.fetched.append(name)
        super().fetch(name, entry, part)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three files, of which any two are more than the caches of these tests take."""
    found = Store(tmp_path / "bucket")
    for name in "abc":
        found.add(name, name.encode() * LARGE)
    return found


def pod(store: Store, folder: Path, *names: str, size: int = 2**30, patience_s: float = 60.0) -> NodeCache:
    """A pod that reads some files, as long as what is returned lives."""
    near = NodeCache(folder.parent / "cache", size, patience_s)
    entries = store.list()
    Mirror(store, folder, near).pull({name: entries[name] for name in names}, results=True)
    for name in names:
        assert (folder / name).read_bytes() == (store.folder / name).read_bytes()
    return near


def objects(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache/v1/objects").iterdir())


def test_the_second_pod_of_a_node_reads_what_the_first_has_fetched(store: Store, tmp_path: Path) -> None:
    """Only small files are asked for again; shards are mapped from the cache itself."""
    tokens = np.arange(LARGE // 4, dtype=np.uint32)
    store.add(f"{NODE}/train/00000.bin", tokens.tobytes())
    store.add(f"{NODE}/train/index.json", b"{}")
    store.add(f"{NODE}/{OUTPUTS}", json.dumps({"outputs": {}, "made_from": {}}).encode())
    for name in ("one", "two"):
        store.fetched.clear()
        mirror = Mirror(store, tmp_path / name, NodeCache(tmp_path / "cache", 2**30))
        pull_upstream(mirror, [planned_node("noop", mirror.root, {"after": [str(mirror.root / NODE)]})])
        assert (f"{NODE}/train/00000.bin" in store.fetched) == (name == "one")
    shard = tmp_path / "two" / NODE / "train/00000.bin"
    assert shard.resolve().parent == tmp_path / "cache/v1/objects"
    assert np.array_equal(np.memmap(shard, np.uint32, "r"), tokens)
    assert not shard.stat().st_mode & 0o222
    assert (tmp_path / "two" / NODE / OUTPUTS).stat().st_mtime == store.list()[f"{NODE}/{OUTPUTS}"].time


def test_a_file_that_was_replaced_in_the_store_is_fetched_again(store: Store, tmp_path: Path) -> None:
    pod(store, tmp_path / "one", "a")
    store.add("a", b"x" * LARGE)
    os.utime(store.folder / "a", (1, 1))
    pod(store, tmp_path / "two", "a")
    assert store.fetched == ["a", "a"]


def test_what_was_used_last_stays_and_what_is_in_use_is_never_evicted(store: Store, tmp_path: Path) -> None:
    size = 5 * LARGE // 2
    for name in "ab":
        del_after = pod(store, tmp_path / "one", name, size=size)
    del del_after
    a, b = (path for _, path in sorted((path.read_bytes()[:1], path) for path in objects(tmp_path)))
    os.utime(a, (2, 2))
    os.utime(b, (1, 1))
    held = pod(store, tmp_path / "two", "c", size=size)
    assert a.exists()
    assert not b.exists()
    assert len(list((tmp_path / "cache/v1/names").iterdir())) == 2
    os.utime((tmp_path / "two/c").resolve(), (0, 0))  # the oldest, but a pod reads it
    pod(store, tmp_path / "three", "b", size=size)
    assert not a.exists()
    assert (tmp_path / "two/c").read_bytes() == b"c" * LARGE
    assert store.fetched == ["a", "b", "c", "b"]
    del held


def test_a_cache_that_is_full_of_files_in_use_is_passed_by(store: Store, tmp_path: Path,
                                                           capsys: pytest.CaptureFixture[str]) -> None:
    held = pod(store, tmp_path / "one", "a", size=LARGE)
    pod(store, tmp_path / "two", "b", size=LARGE)
    assert not (tmp_path / "two/b").is_symlink()
    assert "full of files in use" in capsys.readouterr().out
    assert len(objects(tmp_path)) == 1
    del held


def test_a_full_disk_is_passed_by_with_one_warning(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
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
    assert not [*objects(tmp_path), *(tmp_path / "cache/v1/parts").iterdir()]
    monkeypatch.setattr(cache, "_RESERVE", 2**62)  # as if the disk were full before
    pod(store, tmp_path / "two", "a")
    assert not objects(tmp_path)


def test_a_folder_that_may_not_be_written_is_passed_by(store: Store, tmp_path: Path,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cache").write_text("a file")
    pod(store, tmp_path / "one", "a", "b")
    assert capsys.readouterr().out.count("files are fetched without it") == 1


def test_a_damaged_file_is_noticed_and_fetched_again(store: Store, tmp_path: Path,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    pod(store, tmp_path / "one", "a")
    [found] = objects(tmp_path)
    for damaged in (b"a" * (LARGE - 1) + b"b", b""):
        found.chmod(0o644)
        found.write_bytes(damaged)
        pod(store, tmp_path / "two", "a")
        assert "damaged" in capsys.readouterr().out
    assert store.fetched == ["a"] * 3
    for name in (tmp_path / "cache/v1/names").iterdir():
        name.write_text("")  # the node lost power
    pod(store, tmp_path / "three", "a")


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
    assert len(objects(tmp_path)) == 1
    assert not list((tmp_path / "cache/v1/parts").iterdir())
    make_room(tmp_path / "cache/v1", 0, 0)  # nobody reads it any more
    assert not [*objects(tmp_path), *(tmp_path / "cache/v1/users").iterdir()]


def test_nobody_waits_for_a_fetch_that_stands_still(store: Store, tmp_path: Path,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Stuck(Store):
        def fetch(self, name: str, entry: Entry, part: Path) -> None:
            begun.set()
            assert go_on.wait(60)
            super().fetch(name, entry, part)

    thread = threading.Thread(target=pod, args=(Stuck(store.folder), tmp_path / "one", "a"))
    thread.start()
    assert begun.wait(60)
    pod(store, tmp_path / "two", "a", patience_s=0.0)
    assert "stands still" in capsys.readouterr().out
    go_on.set()
    thread.join()
    pod(store, tmp_path / "three", "a")
    assert store.fetched == ["a"]  # past the cache


def test_a_file_that_is_replaced_while_it_is_fetched_does_not_enter_the_cache(store: Store, tmp_path: Path) -> None:
    class Changing(Store):
        def fetch(self, name: str, entry: Entry, part: Path) -> None:
            super().fetch(name, entry, part)
            os.utime(self.folder / name, (1, 1))

    entry = store.list()["a"]
    assert not NodeCache(tmp_path / "cache", 2**30).place(Changing(store.folder), "a", entry, tmp_path / "one")
    assert not objects(tmp_path)


def test_fluid_s_volume_is_read_where_it_shows_a_file_as_the_store_has_it(store: Store, tmp_path: Path,
                                                                          capsys: pytest.CaptureFixture[str]) -> None:
    volume = tmp_path / "volume"
    for name, size in (("a", LARGE), ("b", LARGE - 1)):  # b is another version, c not there yet
        (volume / name).parent.mkdir(parents=True, exist_ok=True)
        (volume / name).write_bytes(name.encode() * size)
    store.add("small", b"1")
    for root in (volume, tmp_path / "nowhere"):
        pulled = tmp_path / f"pod-{root.name}"
        Mirror(store, pulled, FluidVolume(root)).pull(store.list(), results=True)
        assert {path.name for path in pulled.iterdir() if path.is_symlink()} == {path.name for path in root.glob("a")}
        assert (pulled / "b").read_bytes() == b"b" * LARGE
    assert capsys.readouterr().out.count("not mounted") == 1


def near_profile(**storage: object) -> Profile:
    given = {"name": "near", "storage": {"uri": "s3://bucket/runs", **storage}, "tracking": {"uri": "http://mlflow:5000"}}
    return Profile.model_validate(given)


@pytest.mark.parametrize(("storage", "words"), [
    ({"uri": "", "claim": "c", "cache": {"host_path": "/c", "size": "1Gi"}}, "cache is for a store in an object store"),
    ({"uri": "", "claim": "c", "fluid": {"size": "1Gi"}}, "fluid is for a store in an object store"),
    ({"cache": {"host_path": "/c", "size": "1Gi"}, "fluid": {"size": "1Gi"}}, "not both"),
    ({"cache": {"size": "1Gi"}}, "give one of host_path"),
    ({"cache": {"host_path": "/c", "claim": "c", "size": "1Gi"}}, "give one of host_path"),
    ({"uri": "gs://bucket/runs", "fluid": {"size": "1Gi"}}, "take cache"),
    ({"fluid": {"size": "1Gi", "options": {"aws.secretKey": "hunter2"}}}, "options has aws.secretKey"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused_in_words(storage: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        near_profile(**storage)


@pytest.mark.parametrize(("storage", "source", "at"), [
    ({"cache": {"host_path": "/var/cache/argosy", "size": "1Gi"}},
     {"hostPath": {"path": "/var/cache/argosy", "type": "DirectoryOrCreate"}}, {"mountPath": "/cache"}),
    ({"cache": {"claim": "local", "size": "1Gi"}}, {"persistentVolumeClaim": {"claimName": "local"}},
     {"mountPath": "/cache"}),
    ({"fluid": {"size": "1Gi"}}, {"persistentVolumeClaim": {"claimName": "argosy-near", "readOnly": True}},
     {"mountPath": "/near", "readOnly": True, "mountPropagation": "HostToContainer"}),
])  # fmt: skip
def test_every_pod_mounts_what_is_near(storage: dict[str, object], source: object, at: object) -> None:
    profile = near_profile(**storage)
    [volume], [mount] = ([json.loads(each.model_dump_json(by_alias=True, exclude_none=True)) for each in made(profile)
                          if each.name == "near"] for made in (volumes, mounts))
    assert volume == {"name": "near", **(source if isinstance(source, dict) else {})}
    assert mount == {"name": "near", **(at if isinstance(at, dict) else {})}


@pytest.mark.parametrize(("runtime", "kind", "names"), [
    ("alluxio", "AlluxioRuntime", ["aws.accessKeyId", "aws.secretKey"]),
    ("jindo", "JindoRuntime", ["fs.s3.accessKeyId", "fs.s3.accessKeySecret"]),
])
def test_fluid_gets_a_dataset_of_the_bucket_and_a_runtime_of_its_name(runtime: str, kind: str,
                                                                      names: list[str]) -> None:
    """Accepted by the schemas of Fluid's custom resources, which are not here."""
    given = {"runtime": runtime, "workers": 3, "size": "500Gi", "namespace": "caches", "secret": "keys",
             "endpoint": "http://minio:9000", "directory": "/dev/shm"}
    data, engine, refer = manifests(near_profile(fluid=given))["fluid"]
    assert [(each["kind"], each["metadata"]["namespace"]) for each in (data, engine, refer)] == [
        ("Dataset", "caches"), (kind, "caches"), ("Dataset", "argosy")]
    assert {each["metadata"]["name"] for each in (data, engine, refer)} == {"argosy-near"}  # Fluid goes by it
    [mount] = data["spec"]["mounts"]
    assert (mount["mountPoint"], mount["name"]) == ("s3://bucket/runs", "store")
    assert "http://minio:9000" in mount["options"].values()
    assert [each["name"] for each in mount["encryptOptions"]] == names
    assert {each["valueFrom"]["secretKeyRef"]["name"] for each in mount["encryptOptions"]} == {"keys"}
    assert engine["spec"]["replicas"] == 3
    [level] = engine["spec"]["tieredstore"]["levels"]
    assert (level["mediumtype"], level["path"], level["quota"]) == ("MEM", "/dev/shm", "500Gi")
    assert refer["spec"]["mounts"][0]["mountPoint"] == "dataset://caches/argosy-near"
    assert [each["kind"] for each in manifests(near_profile(fluid={"size": "1Gi"}))["fluid"]] == [
        "Dataset", "AlluxioRuntime"]
    assert "fluid" not in manifests(load_profile("s3"))
