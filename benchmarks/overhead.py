"""Cost of a step on the local runner, beside Luigi's.

python -m benchmarks.overhead

Every step is a process that does nothing, two at a time. Luigi's task starts the very process that our step is, without
what the runner adds. `per_step_s` is our elapsed time a step less the same for that bare process. The last line is
JSON; `ratio` is Luigi's elapsed time a step over ours.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from argosy.core.store.files import write_json
from benchmarks.side_by_side import ROOT
from steps.noop import NoopConfig
from workflows.graph import Graph, Node
from workflows.local.runner import run_plan
from workflows.local.scheduler import Budget
from workflows.plan import plan

WORKERS = 2
PEER = "luigi==3.8.1"
BARE = (sys.executable, "-c", "import argosy.core.step.command, argosy.core.step.runner, steps.noop")
LUIGI = Path(__file__).with_name("overhead_luigi.txt")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="of our runner")
    parser.add_argument("--luigi-steps", type=int, default=200)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        bare = bare_s(args.luigi_steps)
        ours = ours_s(scratch / "ours", args.steps)
        planned = plan_s(scratch / "plan", 10_000)
        luigi = luigi_s(scratch, args.luigi_steps)
    print(f"elapsed a step, {WORKERS} at a time: bare process {bare:.3f} s, Argosy {ours:.3f} s ({args.steps} steps), "
          f"Luigi {luigi:.3f} s ({args.luigi_steps}); plan of 10,000 finished nodes {planned:.2f} s")
    figures = {"ratio": luigi / ours, "ours": ours, "peer": luigi, "per_step_s": ours - bare, "plan_10000_s": planned,
               "bare_per_step_s": bare}
    rounded = {key: round(value, 4) for key, value in figures.items()}
    print(json.dumps({"name": "overhead", "unit": "s/step", **rounded}))


def bare_s(count: int) -> float:
    """Seconds for a process that imports what a step imports and ends."""
    started = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        for done in [pool.submit(subprocess.run, BARE, cwd=ROOT, check=True) for _ in range(count)]:
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


def luigi_s(scratch: Path, count: int) -> float:
    """Seconds for a task of Luigi, which is installed into an environment of its own."""
    venv, script = scratch / "peer", scratch / "noops.py"
    python, uv = str(venv / "bin" / "python"), shutil.which("uv")
    make = [uv, "venv", "--quiet", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
    install = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    for command in ([*make, str(venv)], [*install, "--quiet", PEER]):
        subprocess.run(command, check=True)
    script.write_text(LUIGI.read_text())
    started = time.perf_counter()
    command = [python, str(script), str(scratch / "luigi"), str(count), str(WORKERS), *BARE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return (time.perf_counter() - started) / count


if __name__ == "__main__":
    main()
