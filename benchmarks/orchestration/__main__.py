"""One graph of 12 nodes in Argosy, Airflow, Luigi, Kubeflow Pipelines and Metaflow.

python -m benchmarks.orchestration --data ../shared/data --peers DIR

DIR holds a virtual environment for each peer, by its name (`DIR/luigi` with `pip install luigi`); one that is not there
is left out. Eight nodes count pairs of words in a shard, and a join and three more nodes follow. All sides run
the same functions, two nodes at a time where they can. `plain` has no orchestrator. The last line is JSON."""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import ROOT

HERE = Path(__file__).parent
PEERS = {"luigi": "luigi", "metaflow": "metaflow", "kfp": "kfp", "airflow": "apache-airflow"}
SHARDS, NODES = 8, 12
FOLDERS = ("en_rustbook", "zh_rustbook", "zhen_gowebbook")
VERSION = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


class Side:
    """One program with its scripts, its Python and a store."""

    def __init__(self, name: str, python: str, scratch: Path, data: Path) -> None:
        self.name, self.python, self.data = name, python, data
        self.home, self.stores = scratch / name, 0
        self.home.mkdir()
        if name == "argosy":
            for package in ("argosy", "workflows", "steps", "evals", "probes"):
                shutil.copytree(ROOT / package, self.home / package)
            shutil.copy(HERE / "step.txt", self.home / "steps/peer.py")
        shutil.copy(HERE / "work.txt", self.home / "work.py")
        shutil.copy(HERE / f"{name}.txt", self.home / "graph.py")

    def new_store(self) -> Path:
        """Return an empty store, with a database where the peer needs one."""
        self.stores += 1
        store = self.home / f"store{self.stores}"
        store.mkdir()
        if self.name == "airflow":
            subprocess.run([self.python, "-m", "airflow", "db", "migrate"], env=self.environment(store), cwd=self.home,
                           check=True, capture_output=True)
        return store

    def environment(self, store: Path) -> dict[str, str]:
        """Return the variables that the scripts read; servers, tracking and telemetry are off."""
        home = str(self.home)
        return {**os.environ, "PYTHONPATH": home, "PEERS_DATA": str(self.data), "PEERS_OUT": str(store),
                "PEERS_LOG": str(store / "log"), "PATH": f"{Path(self.python).parent}:{os.environ['PATH']}",
                "METAFLOW_DATASTORE_SYSROOT_LOCAL": str(store), "METAFLOW_USER": "peer", "AIRFLOW_HOME": str(store),
                "AIRFLOW__CORE__DAGS_FOLDER": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

    def run(self, store: Path, top: int = 10, verb: str = "run", **more: str) -> dict[str, Any]:
        """Run the graph once: seconds by the clock and of the processor, what ran, and the result."""
        log, result = store / "log", store / "result"
        log.write_text("")
        result.unlink(missing_ok=True)
        command = [self.python, str(self.home / "graph.py"), str(self.data), str(store), str(top)]
        if self.name == "metaflow":
            command[2:] = ["--no-pylint", verb, "--max-workers", "2", *(["--top", str(top)] if verb == "run" else [])]
        before, started = cpu_s(), time.perf_counter()
        variables = self.environment(store) | more
        done = subprocess.run(command, cwd=self.home, env=variables, capture_output=True, text=True)
        seconds = time.perf_counter() - started
        if done.returncode and not more:
            raise SystemExit(f"{self.name} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return {"seconds": seconds, "cpu": cpu_s() - before, "ran": len(log.read_text().split()),
                "result": result.read_text() if result.exists() else ""}

    def changed(self, store: Path) -> dict[str, dict[str, Any]]:
        """Run the graph again: as it was, with another parameter, with less text."""
        shard = self.data / "3.txt"
        text = shard.read_text()
        found = {"unchanged": self.run(store), "parameter": self.run(store, 20)}
        shard.write_text(text[: len(text) // 2])
        found["input"] = self.run(store, 20)
        shard.write_text(text)
        return found

    def behaviour(self, store: Path, right: Mapping[str, str]) -> dict[str, Any]:
        """Return how many nodes run again in each case, and whether the result is right then."""
        found = self.changed(store)
        for plain in ("", "1") if self.name == "luigi" else ("",):
            store = self.new_store()
            self.run(store, PEERS_KILL="count3", PEERS_PLAIN=plain)
            if not (store / "log.killed").exists():
                raise SystemExit(f"{self.name}: count3 was not killed")
            verb = "resume" if self.name == "metaflow" else "run"
            found["killed" + "_plain" * bool(plain)] = self.run(store, verb=verb, PEERS_PLAIN=plain)
        return {case: {"ran": each["ran"], "right": each["result"] == right.get(case, right["unchanged"])}
                for case, each in found.items()}


def cpu_s() -> float:
    """Seconds of the processor that ended children took."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def make_shards(source: Path, data: Path) -> None:
    """Write real text as eight files of about one size."""
    data.mkdir()
    paths = sorted(path for folder in FOLDERS for path in (source / folder).glob("*.md"))
    if not paths:
        raise SystemExit(f"--data = {source}, allowed: a folder with Markdown in {', '.join(FOLDERS)}")
    for index in range(SHARDS):
        (data / f"{index}.txt").write_text("\n".join(path.read_text() for path in paths[index::SHARDS]))


def sides(peers: Path, scratch: Path, data: Path) -> dict[str, Side]:
    """Return Argosy, the bare functions and the peers that are installed."""
    pythons = {"argosy": sys.executable, "plain": sys.executable}
    for name, package in PEERS.items():
        python = peers / name / "bin/python"
        done = python.exists() and subprocess.run([python, "-c", VERSION, package], capture_output=True, text=True)
        if not done or done.returncode:
            print(f"{name}: left out, as {python} has no {package}")
            continue
        print(f"{name}: {done.stdout.strip()}")
        pythons[name] = str(python)
    return {name: Side(name, python, scratch, data) for name, python in pythons.items()}


def main() -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.orchestration", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        make_shards(args.data, scratch / "data")
        found = sides(args.peers.absolute(), scratch, scratch / "data")
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in found}
        stores = {}
        for _ in range(args.rounds):
            for name, side in found.items():
                stores[name] = side.new_store()
                runs[name].append(side.run(stores[name]))
        right = {case: run["result"] for case, run in found["plain"].changed(stores["plain"]).items()}
        wrong = {name for name, each in runs.items() for run in each if run["result"] != right["unchanged"]}
        if wrong:
            raise SystemExit(f"another result than that of the bare functions: {', '.join(sorted(wrong))}")
        figures = {name: side.behaviour(stores[name], right) if name != "plain" else {} for name, side in found.items()}
    medians = {name: {key: statistics.median(run[key] for run in each) for key in ("seconds", "cpu")}
               for name, each in runs.items()}
    for name, each in medians.items():
        figures[name] |= {**each, "ratio": each["seconds"] / medians["argosy"]["seconds"],
                          "cpu_ratio": each["cpu"] / medians["argosy"]["cpu"],
                          "over": (each["seconds"] - medians["plain"]["seconds"]) / NODES}
        print(f"{name}: {figures[name]}")
    print(json.dumps({"name": "orchestration", "nodes": NODES, "sides": figures}))


if __name__ == "__main__":
    main()
