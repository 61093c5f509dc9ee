"""Cost of a step on the local runner, beside Metaflow's and Luigi's.

python -m benchmarks.overhead

Every step is a process that does nothing; two at a time everywhere. Metaflow starts its own process for a task; Luigi's
task starts the very process that our step is, without what the runner adds. `per_step_s` is our elapsed time a step
less the same for that bare process. The last line is JSON; `ratio` is the faster peer's elapsed time a step over ours.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from argosy.core.store.files import write_json
from steps.noop import NoopConfig
from workflows.graph import Graph, Node
from workflows.local.runner import run_plan
from workflows.local.scheduler import Budget
from workflows.plan import plan

WORKERS = 2
PEERS = ("metaflow==2.19.39", "luigi==3.8.1")
BARE = (sys.executable, "-c", "import argosy.core.step.command, argosy.core.step.runner, steps.noop")
HERE = Path(__file__).resolve().parent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="of our runner")
    parser.add_argument("--luigi-steps", type=int, default=200)
    parser.add_argument("--metaflow-steps", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        bare = bare_s(args.luigi_steps)
        ours = ours_s(scratch / "ours", args.steps)
        planned = plan_s(scratch / "plan", 10_000)
        python = peers_python(scratch / "peers")
        script = [python, str(HERE / "overhead_luigi.py"), str(scratch / "luigi")]  # a process a worker
        luigi = elapsed([*script, str(args.luigi_steps), str(WORKERS), *BARE], {}) / args.luigi_steps
        metaflow = metaflow_s(python, scratch, args.metaflow_steps)
    peer = min(luigi, metaflow)
    print(f"elapsed a step, {WORKERS} at a time: bare process {bare:.3f} s, Argosy {ours:.3f} s ({args.steps} steps), "
          f"Luigi {luigi:.3f} s ({args.luigi_steps}), Metaflow {metaflow:.3f} s ({args.metaflow_steps}); "
          f"plan of 10,000 finished nodes {planned:.2f} s")  # fmt: skip
    figures = {"ratio": peer / ours, "ours": ours, "peer": peer, "per_step_s": ours - bare, "plan_10000_s": planned,
               "metaflow_per_step_s": metaflow, "luigi_per_step_s": luigi, "bare_per_step_s": bare}  # fmt: skip
    rounded = {key: round(value, 4) for key, value in figures.items()}
    print(json.dumps({"name": "overhead", "unit": "s/step", **rounded}))


def bare_s(count: int) -> float:
    """Seconds for a process that imports what a step imports and ends."""
    started = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        for done in [pool.submit(subprocess.run, BARE, cwd=HERE.parent, check=True) for _ in range(count)]:
            done.result()
    return (time.perf_counter() - started) / count


def ours_s(store: Path, count: int) -> float:
    """Seconds for a step of our local runner, plan included."""
    started = time.perf_counter()
    planned = plan(noops(count), store)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        result = run_plan(planned, budget=Budget(WORKERS, 64.0), plain=True)
    ended = result.results.values()
    others = [f"{each.node.id} {each.status}: {each.message}" for each in ended if each.status != "ran"]
    if others or len(result.results) != count:
        raise SystemExit(f"{len(result.results)} of {count} steps ended; {'; '.join(others[:3]) or 'all of them ran'}")
    return (time.perf_counter() - started) / count


def plan_s(store: Path, count: int) -> float:
    """Seconds to plan `count` finished nodes: the median of three."""
    nodes = noops(count)
    graph = Graph(nodes)
    for node in nodes:
        directory = Path(graph.directory(node, str(store)))
        directory.mkdir(parents=True)
        done = {"outputs": {"size": 0, "sha256": ""}, "made_from": graph.made_from(node)}
        write_json(directory / "outputs.json", done, durable=False)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        planned = plan(noops(count), store)
        times.append(time.perf_counter() - started)
        if planned.to_run:
            raise SystemExit(f"{len(planned.to_run)} of {count} finished nodes would run again")
    return statistics.median(times)


def noops(count: int) -> list[Node]:
    """Nodes that do nothing and do not depend on each other."""
    return [Node("noop", "noop", NoopConfig(index=index), part=f"{index:05}") for index in range(count)]


def peers_python(venv: Path) -> str:
    """The interpreter of a new environment that has the peers."""
    python = str(venv / "bin" / "python")
    if uv := shutil.which("uv"):
        commands = [[uv, "venv", "--quiet", "--python", sys.executable, str(venv)],
                    [uv, "pip", "install", "--quiet", "--python", python, *PEERS]]  # fmt: skip
    else:
        commands = [[sys.executable, "-m", "venv", str(venv)], [python, "-m", "pip", "install", "--quiet", *PEERS]]
    for command in commands:
        subprocess.run(command, check=True)
    return python


def metaflow_s(python: str, scratch: Path, count: int) -> float:
    """Seconds for a task of Metaflow's local runtime; start, join and end are tasks too."""
    script = str(HERE / "overhead_metaflow.py")
    home = {"METAFLOW_HOME": str(scratch / "metaflow"), "METAFLOW_DATASTORE_SYSROOT_LOCAL": str(scratch / "metaflow"),
            "METAFLOW_USER": "benchmark", "METAFLOW_DEFAULT_METADATA": "local"}  # fmt: skip
    run = ["run", "--count", str(count), "--max-workers", str(WORKERS), "--max-num-splits", str(count)]
    return elapsed([python, script, "--quiet", "--no-pylint", *run], home) / (count + 3)


def elapsed(command: Sequence[str], environment: dict[str, str]) -> float:
    """Seconds that `command` takes."""
    started = time.perf_counter()
    done = subprocess.run(command, cwd=HERE.parent, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
