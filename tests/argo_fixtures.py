"""A profile whose store is a directory of this machine, the pods' commands run as processes, and an S3 server."""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from argosy.core.tracking.tracker import Tracker
from tests import warm
from tests.processes import ROOT
from workflows.argo.handoff import Handoff
from workflows.argo.pod.__main__ import main
from workflows.local.shipping import PipelineTracker

LINE = "a line"
BUCKET = "argosy"


def write_profile(folder: Path, **more: object) -> Path:
    """A profile `here` below `folder`, with its store in `folder/store`; returns the folder of profiles."""
    profiles = folder / "profiles"
    profiles.mkdir(exist_ok=True)
    storage = {"host_path": str(folder), "path": str(folder), "directory": "store"}
    (profiles / "here.yaml").write_text(yaml.safe_dump({"storage": storage, **more}))
    return profiles


def pod(profiles: Path, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A pod's command, with what the container would have in its environment; a process where the store is a bucket,
    of which file systems keep what they have listed."""
    environment = {**os.environ, "ARGOSY_PROFILES": str(profiles), **(env or {})}
    if arguments[0] == "run":
        arguments = (*arguments, "--outputs", str(profiles.parent / "outputs"))
    if yaml.safe_load((profiles / "here.yaml").read_text())["storage"].get("uri"):
        return warm.run([sys.executable, "-m", "workflows.argo.pod", *arguments], cwd=ROOT, env=environment)
    out, err = io.StringIO(), io.StringIO()
    umask = os.umask(0)
    with mock.patch.dict(os.environ, environment), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    os.umask(umask)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def submitted(store: Path, workflow: str, pipeline: str, age_s: float = 0, **where: Any) -> Path:
    """What a plan and a killed step leave; returns the workflow's folder."""
    PipelineTracker(store, pipeline, LINE).start({"a": 1})
    step = Tracker(store / f"sft-{pipeline}" / "tracking")
    step.header(node="sft", part=pipeline, step="sft", digest=pipeline, pipeline=pipeline, line=LINE)
    step.status("RUNNING")
    step.close()
    node = {"dir": str(store / f"sft-{pipeline}")}
    handoff = Handoff(store=str(store), line=LINE, pipeline=pipeline, nodes={"sft": node}, batches={}, **where)
    path = handoff.write(workflow)
    os.utime(path, (time.time() - age_s,) * 2)
    return path.parent


def plan_pod(profiles: Path, outputs: Path, *arguments: str, workflow: str = "wf",
             env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The plan pod of a lifecycle of the tiny preset."""
    given = ["--workflow", workflow, "--profile", "here", "--preset", "tiny", "--outputs", str(outputs)]
    return pod(profiles, "plan", "lifecycle", *given, *arguments, env=env)


def batches(outputs: Path) -> dict[str, list[str]]:
    """The batches of each task, as the plan handed them to Argo."""
    return {path.name.removeprefix("run-"): json.loads(path.read_text()) for path in sorted(outputs.glob("run-*"))}


def run_batches(profiles: Path, names: Sequence[str], workflow: str = "wf", **env: str) -> list[int]:
    """Exit codes of the batches' pods, one after the other."""
    given = ["run", "--workflow", workflow, "--profile", "here", "--batch"]
    return [pod(profiles, *given, name, env=env).returncode for name in names]


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Start it with an empty bucket BUCKET; yields the environment of its clients."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, "MOTO_IAM_LOAD_MANAGED_POLICIES": ""})
    try:
        _wait_for(port)
        environment = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests",
                       "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        import s3fs

        s3fs.S3FileSystem(key="tests", secret="tests", endpoint_url=environment["AWS_ENDPOINT_URL"],
                          skip_instance_cache=True).mkdir(BUCKET)
        yield environment
    finally:
        server.kill()
        server.wait()


def _wait_for(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.1)
    raise TimeoutError("the S3 server did not start")
