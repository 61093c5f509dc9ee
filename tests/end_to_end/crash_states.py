"""`python -m tests.end_to_end.crash_states N`: SIGKILL at N moments at which work was saved ends in an untouched run's
bytes.

Scoring, clean, SFT, DPO (of two processes) and RL (which makes the next rollout beside the update) get a fifth each. A
kill waits until more has been saved than at the one before (a state of training, a finished shard; clean saves nothing,
and is hit while it works), and then for a random moment. Victims are a step's process, one of its ranks, the runner.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from argosy.core.store.step_files import OUTPUTS, PROGRESS, STATE
from tests.end_to_end.crash import POLL_S, RANK, RUNNER, children, start
from tests.store_comparison import differences

OVERRIDES = (
    "stages=[clean,tokenizer,tokenize,pretrain,sft,dpo,rlhf]", "clean.shards=40", "data.demo.english_bytes=1_300_000",
    "data.demo.code_bytes=800_000", "pretrain.model.max_position_embeddings=256",
    *(f"sft.{each}" for each in ("max_steps=60", "save_every=2", "log_every=1")),
    *(f"dpo.{each}" for each in ("max_steps=60", "save_every=2", "log_every=1", "processes=2", "micro_batch_size=4")),
    *(f"rlhf.{each}" for each in ("max_steps=40", "save_every=1", "log_every=1", "method=grpo", "staleness=1",
                                  "rewards={accept: 1.0, format: 0.2}")),
)
_STEP = re.compile(r"^step (\d+)/", re.MULTILINE)


class Stage:
    """A stage that is killed.

    Attributes:
        saves: how often it saves in all."""

    def __init__(self, name: str, module: str, saves: int) -> None:
        self.name, self.module, self.saves = name, module, saves

    def directories(self, store: Path) -> list[Path]:
        """Return the stage's directories that there are."""
        return sorted(store.glob(f"{self.name}-*"))

    def saved(self, store: Path, since: float) -> int:
        """Return the newest state's step, the shards that are done, or (of clean) whether it works `since`."""
        found = self.directories(store)
        if self.name == "score":
            return sum((each / OUTPUTS).exists() for each in found)
        if self.name == "clean":
            return sum(_progress(each).get("time", 0) > since and not (each / OUTPUTS).exists() for each in found)
        return max((int(path.parent.name.rpartition("-")[2]) for each in found
                    for path in (each / STATE).glob("step-*/complete")), default=0)

    def place(self, store: Path) -> str:
        """Say how far it is."""
        found = self.directories(store)
        if self.name in ("score", "clean"):
            begun = [each for each in found if not (each / OUTPUTS).exists()]
            return " and ".join(f"{each.name}{self._far(each)}" for each in begun) or "its end"
        logs = [path for each in found for path in each.glob("log*.txt")]
        steps = [int(step) for path in logs for step in _STEP.findall(path.read_text(errors="replace"))]
        return f"step {max(steps, default=0)}"

    def _far(self, directory: Path) -> str:
        now = _progress(directory)
        return f": {now['done']} of {now['total']} {now['unit']} ({now['note']})" if now else ""


def _progress(directory: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        record: dict[str, Any] = json.loads((directory / PROGRESS).read_text())
        return record
    return {}


STAGES = (Stage("score", "steps.score", 40), Stage("clean", "steps.clean", 1), Stage("sft", "steps.sft", 30),
          Stage("dpo", "steps.preference", 30), Stage("rlhf", "steps.rlhf", 40))


class Killer:
    """Runs a store to a stage's end, and kills on the way.

    Args:
        store: what it runs in."""

    def __init__(self, store: Path, rng: random.Random) -> None:
        self._store, self._rng = store, rng

    def untouched(self, stage: Stage) -> float:
        """Run to the stage's end; returns the seconds from its first save to its last, or to where states are removed.

        Raises:
            RuntimeError: it failed."""
        begun, before, times = time.time(), 0, []
        process = start(self._store, "--to", stage.name, *OVERRIDES)
        while process.poll() is None:
            if (saved := stage.saved(self._store, begun)) != before:
                before = saved
                times.append(time.monotonic())
            time.sleep(POLL_S)
        if process.returncode:
            raise RuntimeError(f"argosy run ended with {process.returncode}: {self._store}.log")
        return times[-1] - times[0] if times else 0.0

    def kills(self, stage: Stage, count: int, span: float, report: Callable[[str], None]) -> int:
        """Kill `count` times in the stage, fewer if it ends before, and let it end; returns how many it were.

        `span`: as `untouched` returns it. `report`: is told of each kill."""
        done, last = 0, 0
        while done < count:
            begun = time.time()
            process = start(self._store, "--to", stage.name, *OVERRIDES)
            try:
                killed = self._kill(stage, process, last, span, begun)
            except BaseException:
                process.kill()
                raise
            process.wait()
            if not killed:
                break
            last = 0 if stage.name == "clean" else stage.saved(self._store, begun)
            done += 1
            report(killed)
        self.untouched(stage)
        return done

    def _kill(self, stage: Stage, process: "subprocess.Popen[bytes]", last: int, span: float, begun: float) -> str:
        """Kill once more than `last` is saved; returns whom and where, "" where the run ended before."""
        while stage.saved(self._store, begun) <= last:
            if process.poll() is not None:
                return ""
            time.sleep(POLL_S)
        until = time.monotonic() + self._rng.uniform(0, 0.5 * span / stage.saves)
        while time.monotonic() < until:
            time.sleep(POLL_S)
        steps = [each for each in children(process.pid) if each[0] == stage.module]
        if process.poll() is not None or not steps:
            return ""
        name, victim = self._victim(process.pid, steps)
        alone = stage.name != "score"  # the runner would go on with the other shards
        for each in (victim,) if alone else {victim, process.pid}:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        saved, where = stage.saved(self._store, begun), stage.place(self._store)
        process.wait()
        what = {"score": f"{saved} of {stage.saves} shards done", "clean": "nothing saved"}
        return f"SIGKILL for {name} at {where}, {what.get(stage.name, f'state of step {saved}')}"

    def _victim(self, runner: int, steps: Sequence[tuple[str, int]]) -> tuple[str, int]:
        if self._rng.random() < 2 * RUNNER:
            return "the runner", runner
        name, pid = self._rng.choice(steps)
        ranks = [child for child in children(pid) if child[0] == name]
        if ranks and self._rng.random() < RANK:
            return f"a rank of {name}", self._rng.choice(ranks)[1]
        return name, pid


def main() -> int:
    """Returns 0 if nothing differs, else 1."""
    parser = argparse.ArgumentParser("python -m tests.end_to_end.crash_states", description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    names = [stage.name for stage in STAGES]
    parser.add_argument("--stages", nargs="+", choices=names, default=names)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="argosy-crash-states-"))
    print(f"seed {arguments.seed}; stores are in {root}", flush=True)
    rng = random.Random(arguments.seed)
    alone, killed = Killer(root / "untouched", rng), Killer(root / "killed", rng)
    counts: Counter[str] = Counter()
    chosen = [stage for stage in STAGES if stage.name in arguments.stages]
    for number, stage in enumerate(chosen):
        share = (arguments.kills * (number + 1)) // len(chosen) - (arguments.kills * number) // len(chosen)
        span = alone.untouched(stage)
        counts[stage.name] = killed.kills(stage, share, span, lambda line: print(line, flush=True))
    found = differences(root / "killed", root / "untouched")
    print(*found, sep="\n", end="\n" if found else "")
    total = sum(counts.values())
    print(f"{total} kills ({', '.join(f'{name} {count}' for name, count in counts.items())}), "
          f"{len(found)} differences")
    if found or total < arguments.kills:
        print(f"both stores and their logs are in {root}")
        return 1
    shutil.rmtree(root)
    print("the same bytes, and each metric in MLflow once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
