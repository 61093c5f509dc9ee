"""Two programs at the same work in turns, a process each, so that each has a peak of memory of its own; a model
for them."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from argosy.core.step.process import thread_environment
from argosy.corpus.tokens.tokenizer import save_tokenizer, train_tokenizer
from argosy.model.train.config.model import ModelConfig

VOCABULARY = 32_000
MODEL = ModelConfig(num_hidden_layers=8, hidden_size=512, intermediate_size=1376, num_attention_heads=8,
                    num_key_value_heads=8, max_position_embeddings=2048)


def small_model(directory: Path, texts: Iterable[str], vocabulary: int, shape: ModelConfig, seed: int = 0) -> Any:
    """Return a model with random weights, and a tokenizer that was trained on `texts` and is left in `directory`."""
    import torch

    from argosy.model.train.phase import build_model
    from argosy.model.weights.pretrained import load_tokenizer

    save_tokenizer(train_tokenizer(texts, vocabulary, split_han=False), directory)
    tokenizer = load_tokenizer(directory)
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    torch.manual_seed(seed)
    return build_model(shape, len(tokenizer), special), tokenizer


def make_model(directory: Path, texts: Iterable[str]) -> None:
    """Write a Llama with random weights and a tokenizer, as transformers loads them."""
    small_model(directory, texts, VOCABULARY, MODEL)[0].save_pretrained(directory)


ROOT = Path(__file__).resolve().parents[1]
THREADS = 2


def environment(name: str, threads: int) -> dict[str, str]:
    """Return what "ours" starts with, as `argosy run` starts a step; a peer as anybody would, with as many threads."""
    ours = thread_environment(threads)
    return ours if name == "ours" else {key: text for key, text in ours.items() if key.endswith("THREADS")}


class Side:
    """A process that answers `{...}` lines with `{"seconds", "cpu_s", "result"}` lines; see `answer`.

    Args:
        module: run with `-m`, and `arguments`.
        given: variables of its environment; two threads by default."""

    def __init__(self, module: str, *arguments: str, given: Mapping[str, str] | None = None) -> None:
        threads = {name: str(THREADS) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        variables = {**os.environ, **(given or threads), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
                     "TQDM_DISABLE": "1"}  # progress bars take time and are no answer
        self._process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT, env=variables,
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

    def work(self, **task: Any) -> Any:
        """Its answer alone."""
        return self.ask(**task)["result"]

    def close(self) -> float:
        """End it; its peak memory in MiB."""
        peak: float = self.work(peak=True)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        return peak


def answer(work: Callable[..., Any]) -> None:
    """Run `work(**task)`, timed, for each line of stdin until it ends: the process of a side."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        task = json.loads(line)
        started, cpu = time.perf_counter(), time.process_time()
        peak = task.pop("peak", False)  # in MiB
        result = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if peak else work(**task)
        spent = {"seconds": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}
        print(json.dumps({**spent, "result": result}), file=out, flush=True)


class Turn(NamedTuple):
    """One side's task: its seconds by the clock and of the processor, on all threads, and what came of it."""

    seconds: float
    cpu: float
    result: Any


def in_turns(sides: Mapping[str, Callable[[], Any]], rounds: float, about: str = "") -> dict[str, list[Turn]]:
    """Run each side once a round, in every round another one first, so that what other work takes from the machine is
    taken from all; return the turns of each. `about`: what is done, to print a line for each round."""
    turns: dict[str, list[Turn]] = {name: [] for name in sides}
    order = list(sides)
    for _ in range(max(1, round(rounds))):
        for name in order:
            began, cpu = time.perf_counter(), time.process_time()
            result = sides[name]()
            turns[name].append(Turn(time.perf_counter() - began, time.process_time() - cpu, result))
        order = [*order[1:], order[0]]
        if about:
            each = ", ".join(f"{name} {some[-1].seconds:.2f} s" for name, some in turns.items())
            print(f"{about}, round {len(turns[name])}: {each}", flush=True)
    return turns


def median_ratio(above: Iterable[float], below: Iterable[float]) -> float:
    """Return the median over rounds of the ratio of two sides in the same round."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def shared(name: str) -> Path:
    """The place of real data beside the checkout, if any."""
    beside, within = (root / "shared/data" / name for root in (ROOT.parent, ROOT))
    return within if within.is_dir() else beside


def needed(name: str) -> Path:
    """Return the same place; exits where it is not there."""
    if not (found := shared(name)).is_dir():
        raise SystemExit(f"{found} is absent: the benchmark needs it")
    return found


class Duel:
    """Our side and the peer's at the same tasks in turns; both have to find the same scores."""

    def __init__(self, module: str, model: Path) -> None:
        self.sides = {name: Side(module, "--side", name, "--model", str(model)) for name in ("ours", "peer")}
        self.batch, self._turns, self.difference = 0, 0, 0.0
        self.seconds: Counter[tuple[str, str]] = Counter()
        self.counts: Counter[str] = Counter()
        self.cpu: Counter[str] = Counter()

    def tune(self, batch: int, sizes: tuple[int, ...], **task: Any) -> None:
        """Choose the peer's batch size, `batch` or the fastest at a task (each twice, the second time counts), and have
        our side's imports and first pass done, as the peer's are then."""
        peer, ours = self.sides["peer"], self.sides["ours"]
        seconds = {size: [peer.ask(batch=size, **task)["seconds"] for _ in range(2)][1]
                   for size in ((batch,) if batch else sizes)}  # fmt: skip
        print(f"peer's seconds by batch size: {seconds}", flush=True)
        self.batch = min(seconds, key=seconds.__getitem__)
        ours.ask(**task)

    def turn(self, kind: str, count: int, /, **task: Any) -> None:
        """Give both a task of a kind with `count` parts, each first in every other turn."""
        order = ("ours", "peer") if self._turns % 2 else ("peer", "ours")
        found = {name: self.sides[name].ask(**task, **({"batch": self.batch} if name == "peer" else {}))
                 for name in order}  # fmt: skip
        for name, answer in found.items():
            self.seconds[kind, name] += answer["seconds"]
            self.cpu[name] += answer["cpu_s"]
        self._turns, self.counts[kind] = self._turns + 1, self.counts[kind] + count
        ours, peer = found["ours"], found["peer"]
        self.difference = max(self.difference, largest_difference(ours["result"], peer["result"]))
        print(f"{kind}: {count}, ours {ours['seconds']:.1f} s, peer {peer['seconds']:.1f} s", flush=True)

    def figures(self) -> dict[str, Any]:
        """End both; the figures of all turns. Raises AssertionError: scores differ by more than 1e-4."""
        assert self.difference <= 1e-4, f"log-probabilities differ by {self.difference}"
        peaks = {name: round(side.close()) for name, side in self.sides.items()}
        total = {name: sum(self.seconds[kind, name] for kind in self.counts) for name in self.sides}
        count = sum(self.counts.values())
        return {"ratio": round(total["peer"] / total["ours"], 3),
                "cpu_ratio": round(self.cpu["peer"] / self.cpu["ours"], 3),
                "ours": round(count / total["ours"], 3), "peer": round(count / total["peer"], 3),
                "ratios": {k: round(self.seconds[k, "peer"] / self.seconds[k, "ours"], 3) for k in self.counts},
                "counts": dict(self.counts), "ours_peak_mib": peaks["ours"], "peer_peak_mib": peaks["peer"],
                "largest_difference": float(f"{self.difference:.2g}"), "peer_batch": self.batch,
                "threads": THREADS}  # fmt: skip


def largest_difference(ours: dict[str, list[float]], peer: dict[str, list[float]]) -> float:
    """The largest difference between scores of equal keys.

    Raises AssertionError: something was scored by one side alone."""
    assert ours.keys() == peer.keys(), sorted(ours.keys() ^ peer.keys())[:5]
    return max(abs(a - b) for key in ours for a, b in zip(ours[key], peer[key], strict=True))


def command(
    name: str, about: str | None, add: Callable[[argparse.ArgumentParser], object],
    sides: Mapping[str, Callable[[str], Any]], measure: Callable[[Path, argparse.Namespace], dict[str, Any]],
) -> None:
    """The command line of a benchmark: itself it measures and prints; with --side it is one of its two processes.

    Args:
        add: adds the arguments of its own.
        sides: by name, what makes a side's work of a model's directory.
        measure: of a folder to work in and the arguments, the figures."""
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
