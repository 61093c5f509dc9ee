"""`python -m tests.end_to_end.crash N`: SIGKILL at N random moments of a run ends in an untouched run's bytes.

Victims are a step's process, the runner, and the process that sends metrics. A second run trains with two processes a
step; there a rank may be the victim, which is killed or stopped for ever (SIGSTOP). A third has many shards, and saves
the state of post-training every other step. The run is then started again."""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from argosy.core.store.step_files import OUTPUTS, RUN
from tests.command_line import ARGOSY
from tests.processes import ROOT
from tests.store_comparison import differences
from tests.warm import Popen
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.plan import plan

RUNNER, SENDER = 0.25, 0.1  # their shares of the kills
RANK = 0.75  # share of those for a step of several processes that one of its ranks gets
LAST = 0.9  # of the work: when the last kill may come, so that there is somebody to kill
POLL_S = 0.01
RANKS = ("pretrain.processes=2", "sft.processes=2", "sft.micro_batch_size=2")  # of the second run, which ends with SFT
SAVES = (  # of the third, whose RL makes the next rollout beside the update
    "stages=[clean,tokenizer,tokenize,pretrain,sft,dpo,rlhf]", "clean.shards=40", "pretrain.tokens=20_000",
    "pretrain.model.max_position_embeddings=256", "dpo.processes=2", "dpo.micro_batch_size=4", "rlhf.method=grpo",
    "rlhf.staleness=1", "rlhf.rewards={accept: 1.0, format: 0.2}",
    *(f"{stage}.{field}" for stage in ("sft", "dpo", "rlhf")
      for field in ("max_steps=40", "save_every=2", "log_every=1")))
FROZEN_S = 30  # after which a rank that is stopped is noticed


def start(store: Path, *arguments: str, popen: type[Any] = subprocess.Popen) -> Any:
    """`argosy run` of the tiny preset; what it prints is added to `<store>.log`."""
    command = [*ARGOSY, "run", "--preset", "tiny", "--store", str(store), "--plain", *arguments]
    ours = {"MLFLOW_TRACKING_URI": "", "ARGOSY_RANK_TIMEOUT": str(FROZEN_S)}  # metrics go to the store's own database
    with Path(f"{store}.log").open("ab") as log:
        return popen(command, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, **ours})


def run(store: Path, *arguments: str, popen: type[Any] = Popen) -> str:
    """The same to its end; returns what it printed.

    Raises RuntimeError: it failed."""
    log = Path(f"{store}.log")
    before = log.stat().st_size if log.exists() else 0
    code = start(store, *arguments, popen=popen).wait()
    text = log.read_bytes()[before:].decode()
    if code:
        raise RuntimeError(f"argosy run ended with {code}:\n{text[-3000:]}")
    return text


def kills(store: Path, untouched: Path, count: int, rng: random.Random, last: str, overrides: Sequence[str] = ()
          ) -> Iterator[str]:
    """Run to the stage `last` in `store`, kill `count` times, then let it end; yields whom, and how far the run was.

    Args:
        untouched: a store in which the same nodes are done; how long each took there says when the moments are.

    Raises RuntimeError: a run in which nothing was killed failed."""
    planned = plan(lifecycle(compose("tiny", overrides=overrides)), untouched, None, last)
    names = [Path(node.dir).name for node in planned.nodes if node.selected]
    seconds = [float(json.loads((untouched / name / RUN).read_text())["seconds"]) for name in names]
    begins = dict(zip(accumulate(seconds, initial=0.0), names, strict=False))
    moments = sorted(rng.uniform(0, LAST * sum(seconds)) for _ in range(count))
    runner, hurt = start(store, "--to", last, *overrides), False
    try:
        for moment in moments:
            begin, until = max(each for each in begins if each <= moment), 0.0
            while not until or time.monotonic() < until:
                if runner.poll() is not None and not hurt:
                    if runner.returncode:
                        raise RuntimeError(f"a run in which nothing was killed failed: {store}.log")
                    return
                if runner.poll() is not None:
                    runner, hurt = start(store, "--to", last, *overrides), False
                if not until and (store / begins[begin] / RUN).exists():
                    until = time.monotonic() + moment - begin
                time.sleep(POLL_S)
            whom, hurt = _kill_somebody(runner.pid, rng), True
            done = sum((store / name / OUTPUTS).exists() for name in names)
            yield f"{whom} ({done} of {len(names)} nodes done)"
    except BaseException:
        runner.kill()
        raise
    runner.wait()
    run(store, "--to", last, *overrides)


def _kill_somebody(runner: int, rng: random.Random) -> str:
    drawn, below = rng.random(), children(runner)
    name, pid, number = "runner", runner, signal.SIGKILL
    senders = [child for child in below if child[0] == "argosy.core.tracking"]
    steps = [child for child in below if child[0].startswith("steps.")]
    if drawn < SENDER and senders:
        name, pid = senders[0]
    elif drawn > SENDER + RUNNER and steps:
        name, pid = rng.choice(steps)
        ranks = [child for child in children(pid) if child[0] == name]
        if ranks and rng.random() < RANK:
            name, pid = f"a rank of {name}", rng.choice(ranks)[1]
            number = rng.choice([signal.SIGKILL, signal.SIGSTOP])
    with contextlib.suppress(ProcessLookupError):  # it ended by itself just now
        os.kill(pid, number)
    return f"{number.name} for {name}"


def children(parent: int) -> list[tuple[str, int]]:
    """The Python processes below `parent`: the module that each runs, and its id; sorted."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                words = (entry / "cmdline").read_text().split("\0")
                found.append((words[words.index("-m") + 1], int(entry.name)))
    return sorted(found)


def main() -> int:
    """Returns 0 if nothing differs, else 1."""
    parser = argparse.ArgumentParser("python -m tests.end_to_end.crash", description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="argosy-crash-"))
    print(f"seed {arguments.seed}; stores are in {root}", flush=True)
    rng, third = random.Random(arguments.seed), arguments.kills // 3
    runs = (("one", arguments.kills - 2 * third, "compare", ()), ("ranks", third, "sft", RANKS),
            ("saves", third, "rlhf", SAVES))
    if not all(crash(root / name, wanted, rng, last, overrides) for name, wanted, last, overrides in runs):
        return 1
    shutil.rmtree(root)
    print(f"{arguments.kills} kills: the same bytes, and each metric in MLflow once")
    return 0


def crash(root: Path, wanted: int, rng: random.Random, last: str, overrides: Sequence[str]) -> bool:
    """Disturb a run `wanted` times; says whether it ended as one that was left alone."""
    root.mkdir()
    run(root / "untouched", "--to", last, *overrides)
    count = 0
    for count, killed in enumerate(kills(root / "killed", root / "untouched", wanted, rng, last, overrides), 1):
        print(f"{count}: {killed}", flush=True)
    found = differences(root / "killed", root / "untouched")
    print(*found, sep="\n", end="\n" if found else "")
    if found or count < wanted:
        print(f"{count} kills, {len(found)} differences; both stores and their logs are in {root}")
    return not found and count == wanted


if __name__ == "__main__":
    sys.exit(main())
