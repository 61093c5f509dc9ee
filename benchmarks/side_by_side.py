"""Two programs at the same work in turns: a process each, so that each has a peak of memory of its own."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
THREADS = 2


class Side:
    """A process that answers `{...}` lines with `{"seconds", "cpu_s", "result"}` lines; see `answer`."""

    def __init__(self, module: str, *arguments: str) -> None:
        threads = {name: str(THREADS) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        environment = {**os.environ, **threads, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
                       "TQDM_DISABLE": "1"}  # progress bars take time and are no answer
        self._process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT, env=environment,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip

    def ask(self, **task: Any) -> dict[str, Any]:
        """Its answer, with the `seconds` that it took, and those of processors, which other work disturbs less."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> float:
        """End it; its peak memory in MiB."""
        peak: float = self.ask(peak=True)["result"]
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        return peak


def answer(work: Callable[..., Any]) -> None:
    """What a side's process does: `work(**task)` for each line of stdin, timed, until it ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        task = json.loads(line)
        started, cpu = time.perf_counter(), time.process_time()
        result = _peak_mib() if task.pop("peak", False) else work(**task)
        spent = {"seconds": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}
        print(json.dumps({**spent, "result": result}), file=out, flush=True)


def shared(name: str) -> Path:
    """Where real data lies beside the checkout, if anywhere."""
    beside, within = (root / "shared/data" / name for root in (ROOT.parent, ROOT))
    return within if within.is_dir() else beside


def best_batch(peer: Side, sizes: tuple[int, ...], **task: Any) -> int:
    """The batch size with which the peer is fastest at a task (each twice, the second time counts)."""
    seconds = {size: [peer.ask(batch=size, **task)["seconds"] for _ in range(2)][1] for size in sizes}
    print("peer by batch size: " + ", ".join(f"{size}: {found:.1f} s" for size, found in seconds.items()), flush=True)
    return min(seconds, key=seconds.__getitem__)


def largest_difference(ours: dict[str, list[float]], peer: dict[str, list[float]]) -> float:
    """Of the scores of equal keys.

    Raises:
        AssertionError: something was scored by one side alone.
    """
    assert ours.keys() == peer.keys(), sorted(ours.keys() ^ peer.keys())[:5]
    return max(abs(a - b) for key in ours for a, b in zip(ours[key], peer[key], strict=True))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def command(
    name: str, about: str | None, add: Callable[[argparse.ArgumentParser], object],
    sides: Mapping[str, Callable[[str], Any]], measure: Callable[[Path, argparse.Namespace], dict[str, Any]],
) -> None:
    """The command line of a benchmark: itself it measures and prints; with --side it is one of its two processes.

    Args:
        add: adds the arguments of its own.
        sides: by name, what makes a side's work of a model's directory.
        measure: of a folder to work in and the arguments, the figures.
    """
    parser = argparse.ArgumentParser(f"python -m benchmarks.{name}", description=about)
    add(parser)
    parser.add_argument("--batch", type=int, default=0, help="the peer's batch size, instead of its best one")
    parser.add_argument("--side", choices=tuple(sides), help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        answer(sides[args.side](args.model))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), args)))
