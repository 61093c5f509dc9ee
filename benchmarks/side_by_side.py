"""Two programs at the same work in turns, a process each, so that each has a peak of memory of its own; a model
for them."""

import multiprocessing
import os
import resource
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from argosy.core.lazy import torch
from argosy.core.step.process import thread_environment
from argosy.corpus.tokens.tokenizer import save_tokenizer, train_tokenizer
from argosy.model.train.config.model import ModelConfig

VOCABULARY = 32_000
MODEL = ModelConfig(num_hidden_layers=8, hidden_size=512, intermediate_size=1376, num_attention_heads=8,
                    num_key_value_heads=8, max_position_embeddings=2048)


def make_model(directory: Path, texts: Iterable[str]) -> None:
    """Write a Llama with random weights, and a tokenizer trained on `texts`, as transformers loads them."""
    from argosy.model.train.phase import build_model
    from argosy.model.weights.pretrained import load_tokenizer

    save_tokenizer(train_tokenizer(texts, VOCABULARY, split_han=False), directory)
    tokenizer = load_tokenizer(directory)
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    torch.manual_seed(0)
    build_model(MODEL, VOCABULARY, special).save_pretrained(directory)


ROOT = Path(__file__).resolve().parents[1]
THREADS = 2


def environment(name: str, threads: int) -> dict[str, str]:
    """Return what "ours" starts with, as `argosy run` starts a step; a peer as anybody would, with as many threads."""
    ours = thread_environment(threads)
    return ours if name == "ours" else {key: text for key, text in ours.items() if key.endswith("THREADS")}


class Turn(NamedTuple):
    """One side's task: its seconds by the clock and of the processor, on all threads, and what came of it."""

    seconds: float
    cpu: float
    result: Any


class Side:
    """A process of its own that works.

    Args:
        make: makes its work there, of `arguments`; a function of a module.
        given: variables of its environment; two threads by default."""

    def __init__(self, make: Callable[..., Callable[..., Any]], *arguments: Any, given: Mapping[str, str] | None = None
                 ) -> None:
        threads = {name: str(THREADS) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        quiet = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1"}
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (make, arguments))
        with mock.patch.dict(os.environ, {**(given or threads), **quiet}):
            self._pool.submit(_peak).result()  # which starts it

    def ask(self, **task: Any) -> Turn:
        """Do a task, timed."""
        return self._pool.submit(_turn, task).result()

    def work(self, **task: Any) -> Any:
        """Do a task; returns what came of it alone."""
        return self.ask(**task).result

    def close(self) -> float:
        """End it; its peak memory in MiB."""
        peak = self._pool.submit(_peak).result()
        self._pool.shutdown()
        return peak


_work: list[Callable[..., Any]] = []  # of a side's process


def _begin(make: Callable[..., Callable[..., Any]], arguments: tuple[Any, ...]) -> None:
    os.dup2(2, 1)  # what libraries print is no figure
    _work.append(make(*arguments))


def _turn(task: dict[str, Any]) -> Turn:
    began, cpu = time.perf_counter(), time.process_time()
    result = _work[0](**task)
    return Turn(time.perf_counter() - began, time.process_time() - cpu, result)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


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

    def __init__(self, ours: Callable[[str], Any], peer: Callable[[str], Any], model: Path, threads: int = THREADS
                 ) -> None:
        given = environment("peer", threads)
        self.sides = {name: Side(make, str(model), given=given) for name, make in (("ours", ours), ("peer", peer))}
        self.threads = threads
        self.batch, self._turns, self.difference = 0, 0, 0.0
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        self.cpu: dict[tuple[str, str], float] = defaultdict(float)
        self.counts: Counter[str] = Counter()

    def tune(self, sizes: tuple[int, ...], **task: Any) -> None:
        """Choose the peer's batch size, the fastest at a task (each twice, the second time counts), and have our side's
        imports and first pass done, as the peer's are then."""
        peer, ours = self.sides["peer"], self.sides["ours"]
        seconds = {size: [peer.ask(batch=size, **task).seconds for _ in range(2)][1] for size in sizes}
        print(f"peer's seconds by batch size: {seconds}", flush=True)
        self.batch = min(seconds, key=seconds.__getitem__)
        ours.ask(**task)

    def turn(self, kind: str, count: int, /, **task: Any) -> None:
        """Give both a task of a kind with `count` parts, each first in every other turn."""
        order = ("ours", "peer") if self._turns % 2 else ("peer", "ours")
        found = {name: self.sides[name].ask(**task, **({"batch": self.batch} if name == "peer" else {}))
                 for name in order}  # fmt: skip
        for name, turn in found.items():
            self.seconds[kind, name] += turn.seconds
            self.cpu[kind, name] += turn.cpu
        self._turns, self.counts[kind] = self._turns + 1, self.counts[kind] + count
        ours, peer = found["ours"], found["peer"]
        self.difference = max(self.difference, largest_difference(ours.result, peer.result))
        print(f"{kind}: {count}, ours {ours.seconds:.1f} s, peer {peer.seconds:.1f} s; of processors {ours.cpu:.1f} s, "
              f"{peer.cpu:.1f} s", flush=True)

    def figures(self, within: float = 1e-4) -> dict[str, Any]:
        """End both; the figures of all turns. Raises AssertionError: scores differ by more than `within`."""
        assert self.difference <= within, f"log-probabilities differ by {self.difference}"
        peaks = {name: round(side.close()) for name, side in self.sides.items()}
        total, cpu = ({name: sum(each[kind, name] for kind in self.counts) for name in self.sides}
                      for each in (self.seconds, self.cpu))
        count = sum(self.counts.values())
        return {"ratio": round(total["peer"] / total["ours"], 3),
                "cpu_ratio": round(cpu["peer"] / cpu["ours"], 3),
                "ours": round(count / total["ours"], 3), "peer": round(count / total["peer"], 3),
                "ratios": {k: round(self.seconds[k, "peer"] / self.seconds[k, "ours"], 3) for k in self.counts},
                "counts": dict(self.counts), "ours_peak_mib": peaks["ours"], "peer_peak_mib": peaks["peer"],
                "largest_difference": float(f"{self.difference:.2g}"), "peer_batch": self.batch,
                "threads": self.threads}  # fmt: skip


def largest_difference(ours: dict[str, list[float]], peer: dict[str, list[float]]) -> float:
    """The largest difference between scores of equal keys.

    Raises AssertionError: something was scored by one side alone."""
    assert ours.keys() == peer.keys(), sorted(ours.keys() ^ peer.keys())[:5]
    return max(abs(a - b) for key in ours for a, b in zip(ours[key], peer[key], strict=True))
