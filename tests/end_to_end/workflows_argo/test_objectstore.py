"""Pods whose store is a bucket and that start with nothing: the same bytes as a laptop's, over kills and stops."""

import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from argosy.core.store.lease import LEASE
from argosy.core.store.step_files import OUTPUTS, RUN
from argosy.core.tracking.mlflow.server import create_database
from tests.argo_fixtures import BUCKET, batches, plan_pod, pod, s3_server, write_profile
from tests.processes import ROOT
from tests.store_comparison import OF_THE_PROCESS
from tests.warm import Popen
from workflows.argo.objectstore.files import Remote
from workflows.argo.objectstore.node import FILES
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.local.runner import run_plan
from workflows.plan import PlannedNode, plan

LAST = "pretrain"
OVERRIDES = ("pretrain.tokens=102400", "pretrain.save_every=4")  # 200 steps: long enough to be interrupted


@dataclass
class Cluster:
    """A bucket, and pods whose scratch volume is empty whenever one starts."""

    folder: Path
    profiles: Path
    remote: Remote
    environment: dict[str, str]

    def empty(self) -> None:
        """As a new pod finds its volume."""
        shutil.rmtree(self.folder / "mirror", ignore_errors=True)

    def plan(self, workflow: str) -> dict[str, list[str]]:
        """Plan; returns the batches that are to run."""
        self.empty()
        outputs = self.folder / f"outputs-{workflow}"
        done = plan_pod(self.profiles, outputs, "--to", LAST, workflow=workflow, env=self.environment)
        assert done.returncode == 0, done.stderr
        return {task: names for task, names in batches(outputs).items() if names}

    def run(self, workflow: str, batch: str) -> int:
        """Run a batch in a new pod; returns its exit code."""
        self.empty()
        done = pod(self.profiles, *self._run(workflow, batch), env=self.environment)
        if done.returncode:
            print(done.stdout, done.stderr)
        return done.returncode

    def interrupt(self, workflow: str, batch: str, number: int, after: int) -> int:
        """The same, but signal `number` comes once a state after step `after` is in the bucket."""
        self.empty()
        environment = {**os.environ, "ARGOSY_PROFILES": str(self.profiles), **self.environment}
        command = [sys.executable, "-m", "workflows.argo.pod", *self._run(workflow, batch)]
        process = Popen(command, cwd=ROOT, env=environment)
        while self.state(batch) <= after:
            assert process.poll() is None, "it ended before it was interrupted"
            time.sleep(0.05)
        process.send_signal(number)
        return process.wait()

    def state(self, batch: str) -> int:
        """Step of the newest state that another pod would go on from; 0 for none."""
        listed = json.loads(self.remote.read(f"{batch}/{FILES}") or b'{"files": []}')["files"]
        return max((int(name.split("/")[1].removeprefix("step-")) for name in listed if name.startswith("state/step-")),
                   default=0)  # fmt: skip

    @staticmethod
    def _run(workflow: str, batch: str) -> list[str]:
        return ["run", "--workflow", workflow, "--profile", "here", "--batch", batch]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    from mlflow.tracking import MlflowClient

    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        uri = f"s3://{BUCKET}/runs"
        cache = {"host_path": "/of/the/node", "path": str(tmp_path / "cache"), "size": "1Gi"}
        storage = {"uri": uri, "push_s": 0.3, "path": str(tmp_path / "mirror"), "directory": "store", "cache": cache}
        tracking = f"sqlite:///{tmp_path}/mlflow.db"
        create_database(tmp_path / "mlflow.db")
        MlflowClient(tracking_uri=tracking).create_experiment("tiny", f"file://{tmp_path}/artifacts")
        profiles = write_profile(tmp_path, storage=storage, tracking={"uri": tracking})
        own = {**environment, "MLFLOW_TRACKING_URI": tracking, "ARGOSY_OVERRIDES": "\n".join(OVERRIDES)}
        yield Cluster(tmp_path, profiles, Remote(uri, {}), own)


@pytest.fixture
def laptop(tmp_path: Path, warm: None) -> list[PlannedNode]:
    """The same nodes, run on a laptop."""
    planned = plan(lifecycle(compose("tiny", overrides=OVERRIDES)), tmp_path / "laptop", None, LAST)
    assert run_plan(planned, plain=True).exit_code == 0
    return planned.to_run


def test_pods_with_a_bucket_make_a_laptop_s_bytes_though_two_of_them_are_ended_in_the_middle(
    cluster: Cluster, laptop: list[PlannedNode]) -> None:
    given = cluster.plan("wf")
    assert set(given) == {node.name.replace("_", "-") for node in laptop}
    *before, (training,) = (given[node.name.replace("_", "-")] for node in laptop)
    assert [cluster.run("wf", batch) for [batch] in before] == [0] * len(before)
    assert cluster.interrupt("wf", training, signal.SIGKILL, after=0) == -signal.SIGKILL
    reached = cluster.state(training)
    assert cluster.interrupt("wf", training, signal.SIGTERM, after=reached) == 128 + signal.SIGTERM
    assert cluster.remote.read(f"{training}/{LEASE}") is None  # let go of, so that nobody waits
    assert cluster.remote.read(f"{training}/{OUTPUTS}") is None
    assert cluster.run("wf", training) == 0

    there = cluster.remote.list()
    # The record of the first, which was killed, may not have reached the bucket.
    assert json.loads(cluster.remote.read(f"{training}/{RUN}") or b"")["attempts"] in (2, 3)
    assert not [name for name in there if "/state/" in name]
    log = (cluster.remote.read(f"{training}/log.txt") or b"").decode()
    first, second = (int(step) for step in re.findall(r"continuing after step (\d+)", log))
    assert 0 < reached <= first < second  # from what the killed pod had pushed, then from the stopped one's
    spool = (cluster.remote.read(f"{training}/tracking/spool.jsonl") or b"").decode().splitlines()
    logged = [(key, line["step"]) for line in map(json.loads, spool) if line["kind"] == "metrics"
              for key in line["values"]]  # fmt: skip
    assert logged
    assert len(logged) == len(set(logged))  # each metric once
    for node in laptop:
        name, own = Path(node.dir).name, Path(node.dir)
        ours = {path.removeprefix(f"{name}/") for path in there if path.startswith(f"{name}/")} - {FILES}
        results = {path for path in ours if path.split("/")[0] not in OF_THE_PROCESS}
        theirs = {str(path.relative_to(own)) for path in own.rglob("*") if path.is_file()}
        assert results == {path for path in theirs if path.split("/")[0] not in OF_THE_PROCESS}
        assert OUTPUTS in results
        for path in results:
            assert cluster.remote.read(f"{name}/{path}") == (own / path).read_bytes(), f"{name}/{path}"

    cluster.empty()
    finish = ("finish", "--workflow", "wf", "--profile", "here", "--status", "Succeeded")
    assert pod(cluster.profiles, *finish, env=cluster.environment).returncode == 0
    assert json.loads(cluster.remote.read(".argo/wf/finished.json") or b"") == {"status": "FINISHED"}
    assert cluster.plan("wf-2") == {}  # nothing is left, so no pod follows
