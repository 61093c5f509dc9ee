"""`python -m tests.end_to_end.crash N`: SIGKILL at N random moments of a run ends in an untouched run's bytes.

Victims are a step's process, the runner, and the process that sends metrics. A second run trains with two processes a
step; there a rank may be the victim, which is killed or stopped for ever (SIGSTOP). A third has many shards, and saves
the state of post-training every other step. The run is then started again.
"""

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

from argosy.core.store.step_files import OUTPUTS, RUN
from tests.store_comparison import differences
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.plan import plan

ROOT = Path(__file__).resolve().parents[2]
ARGOSY = (sys.executable, "-c", "import sys; from workflows.cli import main; sys.exit(main())")
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
      for field in ("max_steps=40", "save_every=2", "log_every=1")),
)
FROZEN_S = 30  # after which a rank that is stopped is noticed


def start(store: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """`argosy run` of the tiny preset; what it prints is added to `<store>.log`."""
    command = [*ARGOSY, "run", "--preset", "tiny", "--store", str(store), "--plain", *arguments]
    ours = {"MLFLOW_TRACKING_URI": "", "ARGOSY_RANK_TIMEOUT": str(FROZEN_S)}  # metrics go to the store's own database
    with Path(f"{store}.log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, **ours})


def run(store: Path, *arguments: str) -> str:
    """The same to its end; returns what it printed.

    Raises:
        RuntimeError: it failed.
    """
    log = Path(f"{store}.log")
    before = log.stat().st_size if log.exists() else 0
    code = start(store, *arguments).wait()
    text = log.read_bytes()[before:].decode()
    if code:
        raise RuntimeError(f"argosy run ended with {code}:\n{text[-3000:]}")
    return text


class Crasher:
    """A run that is killed and started again.

    Args:
        store: what it runs in; does not exist yet.
        untouched: a store in which the same nodes are done; how long each took there says when the moments are.
        last: stage that is run.
        overrides: of the config of both.
    """

    def __init__(self, store: Path, untouched: Path, rng: random.Random, last: str,
                 overrides: Sequence[str] = ()) -> None:
        self._store, self._rng, self._arguments = store, rng, ("--to", last, *overrides)
        planned = plan(lifecycle(compose("tiny", overrides=overrides)), untouched, None, last)
        names = [Path(node.dir).name for node in planned.nodes if node.selected]
        self._seconds = {name: float(json.loads((untouched / name / RUN).read_text())["seconds"]) for name in names}
        self._runner: subprocess.Popen[bytes] | None = None
        self._killed = False  # anything of the run in progress

    def kills(self, count: int) -> Iterator[str]:
        """Kill `count` times, fewer if the run ends before, then let it end. Yields whom and how far the run was.

        Raises:
            RuntimeError: a run in which nothing was killed failed.
        """
        moments = sorted(self._rng.uniform(0, LAST * sum(self._seconds.values())) for _ in range(count))
        try:
            for moment in moments:
                if (killed := self._kill(moment)) is None:
                    break
                yield killed
        except BaseException:
            if self._runner:
                self._runner.kill()
            raise
        if self._runner:
            self._runner.wait()
        run(self._store, *self._arguments)

    def _kill(self, moment: float) -> str | None:
        """After `moment` seconds of the untouched run's work."""
        begins = dict(zip(self._seconds, accumulate(self._seconds.values(), initial=0.0), strict=False))
        name = [name for name, begin in begins.items() if begin <= moment][-1]
        while not (self._store / name / RUN).exists():
            if not self._goes_on():
                return None
        until = time.monotonic() + moment - begins[name]
        while time.monotonic() < until:
            if not self._goes_on():
                return None
        return self._kill_somebody() if self._goes_on() else None

    def _goes_on(self) -> bool:
        """Start the run again if it ended; False when all is done."""
        if self._runner is None or self._runner.poll() is not None:
            if self._runner and not self._killed:
                if self._runner.returncode:
                    raise RuntimeError(f"a run in which nothing was killed failed: {self._store}.log")
                return False
            self._runner, self._killed = start(self._store, *self._arguments), False
        time.sleep(POLL_S)
        return True

    def _kill_somebody(self) -> str:
        assert self._runner is not None
        drawn = self._rng.random()
        below = children(self._runner.pid)
        name, pid, number = "runner", self._runner.pid, signal.SIGKILL
        senders = [child for child in below if child[0] == "argosy.core.tracking"]
        steps = [child for child in below if child[0].startswith("steps.")]
        if drawn < SENDER and senders:
            name, pid = senders[0]
        elif drawn > SENDER + RUNNER and steps:
            name, pid = self._rng.choice(steps)
            ranks = [child for child in children(pid) if child[0] == name]
            if ranks and self._rng.random() < RANK:
                name, pid = f"a rank of {name}", self._rng.choice(ranks)[1]
                number = self._rng.choice([signal.SIGKILL, signal.SIGSTOP])
        with contextlib.suppress(ProcessLookupError):  # it ended by itself just now
            os.kill(pid, number)
        self._killed = True
        done = sum((self._store / node / OUTPUTS).exists() for node in self._seconds)
        return f"{number.name} for {name} ({done} of {len(self._seconds)} nodes done)"


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
    if not all(crash(root / name, kills, rng, last, overrides) for name, kills, last, overrides in runs):
        return 1
    shutil.rmtree(root)
    print(f"{arguments.kills} kills: the same bytes, and each metric in MLflow once")
    return 0


def crash(root: Path, kills: int, rng: random.Random, last: str, overrides: Sequence[str]) -> bool:
    """Disturb a run `kills` times; says whether it ended as one that was left alone."""
    root.mkdir()
    run(root / "untouched", "--to", last, *overrides)
    count = 0
    crasher = Crasher(root / "killed", root / "untouched", rng, last, overrides)
    for count, killed in enumerate(crasher.kills(kills), 1):
        print(f"{count}: {killed}", flush=True)
    found = differences(root / "killed", root / "untouched")
    print(*found, sep="\n", end="\n" if found else "")
    if found or count < kills:
        print(f"{count} kills, {len(found)} differences; both stores and their logs are in {root}")
    return not found and count == kills


if __name__ == "__main__":
    sys.exit(main())
