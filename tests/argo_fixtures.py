"""A profile whose store is a directory of this machine, and the pods' commands run as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def write_profile(folder: Path, **more: object) -> Path:
    """A profile `here` below `folder`, with its store in `folder/store`; returns the folder of profiles."""
    profiles = folder / "profiles"
    profiles.mkdir(exist_ok=True)
    storage = {"host_path": str(folder), "path": str(folder), "directory": "store"}
    (profiles / "here.yaml").write_text(yaml.safe_dump({"storage": storage, **more}))
    return profiles


def pod(profiles: Path, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A pod's command, with what the container would have in its environment."""
    return subprocess.run(
        [sys.executable, "-m", "workflows.argo.pod", *arguments],
        cwd=ROOT, env={**os.environ, "ARGOSY_PROFILES": str(profiles), **(env or {})},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def plan_pod(
    profiles: Path, outputs: Path, *arguments: str, workflow: str = "wf", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
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
