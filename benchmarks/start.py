"""Memory and seconds of a model's start, saves, resumption and export where its processes hold parts of it.

python -m benchmarks.start                                 # 1 B parameters; needs 20 GB of memory

A Llama with random weights under FSDP2, in processes of one machine over gloo. A rank's peak is what it holds (weights,
and from the first step on the optimizer's moments) and the anonymous memory that a phase takes besides, sampled;
`peak_ratio` is the highest of those over what the rank holds and one layer. The peer is transformers, in one process:
`start_ratio`, `resume_ratio` and `export_ratio` are its seconds of loading, loading and saving over ours, each weight
read once on both sides. The last line is JSON."""

import argparse
import json
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch.multiprocessing

from argosy.core.step.machine import free_port

PHASES = ("start", "save", "resume", "export")
LENGTH = 16  # tokens of a sample; the step is not what is measured


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.start", description=__doc__)
    parser.add_argument("--layers", type=int, default=16, metavar="N")
    parser.add_argument("--width", type=int, default=2048, metavar="N")
    parser.add_argument("--processes", type=int, default=4, metavar="N")
    args = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(2**20),  # what is freed is given back
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with TemporaryDirectory(prefix="argosy-start-") as folder:
        processes: Any = torch.multiprocessing
        with processes.get_context("spawn").Pool(1) as alone:
            alone.apply(peer, (Path(folder) / "small", 1, 64))
            theirs = alone.apply(peer, (Path(folder), args.layers, args.width))
        processes.spawn(work, (args.processes, Path(folder)), args.processes)
        ranks = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(args.processes)]
    seconds = {phase: max(rank[phase]["seconds"] for rank in ranks) for phase in PHASES}
    peaks = {phase: max(rank[phase]["peak"] / (rank[phase]["held"] + rank["layer"]) for rank in ranks)
             for phase in PHASES}
    figures = {"peak_ratio": max(peaks.values()), "start_ratio": theirs["load"] / seconds["start"],
               "resume_ratio": theirs["load"] / seconds["resume"], "export_ratio": theirs["save"] / seconds["export"]}
    more = {f"peak_{phase}": peak for phase, peak in peaks.items()} | {
        f"seconds_{phase}": each for phase, each in seconds.items()}
    print(json.dumps({"name": "start", "unit": "ratio", **figures, **more, "parameters": theirs["parameters"]}))


def peer(folder: Path, layers: int, width: int) -> dict[str, float]:
    """Make the model in `folder`; return transformers' seconds of loading and saving it."""
    import torch
    from transformers import LlamaConfig

    from argosy.model.weights.pretrained import load_weights, random_model

    config = LlamaConfig(vocab_size=32000, hidden_size=width, intermediate_size=width * 11 // 4 // 32 * 32,
                         num_hidden_layers=layers, num_attention_heads=width // 64, num_key_value_heads=width // 64,
                         max_position_embeddings=LENGTH, tie_word_embeddings=False)
    model = random_model(config)
    folder.mkdir(exist_ok=True)
    model.save_pretrained(folder / "model")
    del model
    began = time.perf_counter()
    model = load_weights(folder / "model", "AutoModelForCausalLM", dtype="float32")[0]
    with torch.no_grad():
        for each in model.parameters():  # files that are mapped are read when a weight is
            each.copy_(each.clone())
    loaded = time.perf_counter()
    model.save_pretrained(folder / "saved")
    return {"load": loaded - began, "save": time.perf_counter() - loaded,
            "parameters": sum(each.numel() for each in model.parameters())}


def work(rank: int, world: int, folder: Path) -> None:
    """Take the phases as one of the processes, and write down what each took."""
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=rank, world_size=world)
    take_phases(rank, world, folder / "small", Meter())  # imports, and what is made once
    meter = Meter()
    take_phases(rank, world, folder, meter)
    (folder / f"{rank}.json").write_text(json.dumps(meter.taken))
    dist.barrier()


def take_phases(rank: int, world: int, folder: Path, meter: "Meter") -> None:
    """Start the model in `folder`, train a step, save, resume and export."""
    from argosy.model.train.config import TrainConfig
    from argosy.model.train.engines import make_engine
    from argosy.model.train.parallelism import Group
    from argosy.model.weights.export import save_weights
    from argosy.model.weights.unfilled import unfilled

    config = TrainConfig.model_validate({
        "tokenized": "", "tokens": 10**6, "sequence_length": LENGTH, "global_batch_size": world, "micro_batch_size": 1,
        "processes": world, "engine": "fsdp", "dtype": "float32", "document_mask": False})
    with meter.phase("start"):
        engine: Any = make_engine(unfilled(folder / "model"), 1, config, Group(rank, world))
    decoder = engine.module.model.model
    meter.taken["layer"] = max(sum(each.numel() * 4 for each in part.parameters())
                               for part in (*decoder.layers, decoder.embed_tokens))
    meter.held("start", engine)
    engine.train_step(_batch(), 1e-3)
    for name in ("state", "export"):
        (folder / name).mkdir(exist_ok=True)
    with meter.phase("save"):
        engine.save(folder / "state")
    with meter.phase("resume"):
        engine.load(folder / "state")
    with meter.phase("export"):
        weights = engine.weights()
        if rank == 0:
            save_weights(engine.module.model, folder / "export", weights)
        deque(weights, maxlen=0)
    for name in PHASES[1:]:
        meter.held(name, engine)


class Meter:
    """Memory and seconds of phases that every rank begins and ends together."""

    def __init__(self) -> None:
        self.taken: dict[str, Any] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        import torch.distributed as dist

        dist.barrier()
        began, before = time.perf_counter(), _anonymous()
        with _peak() as peak:
            yield
            dist.barrier()
        self.taken[name] = {"seconds": time.perf_counter() - began, "more": peak[0] - before}

    def held(self, name: str, engine: Any) -> None:
        """Note the bytes of weights and moments that this process holds in a phase."""
        from argosy.model.train.parallelism import local_part

        tensors = [*engine.module.parameters(),
                   *(each for state in engine._optimizer.state.values() for each in state.values() if each.ndim)]
        held = sum(local_part(each.detach()).nbytes for each in tensors)
        made = name == "start"  # what it takes besides is what it holds then
        self.taken[name] |= {"held": held, "peak": self.taken[name]["more"] + (0 if made else held)}


@contextmanager
def _peak() -> Iterator[list[int]]:
    """Yield a list whose number is, at the end, the most anonymous memory in bytes."""
    found, over = [_anonymous()], threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            found[0] = max(found[0], _anonymous())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def _anonymous() -> int:
    """Return the bytes of memory that is no file's, swapped out or not."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "VmSwap:")))


def _batch() -> Any:
    import numpy as np

    from argosy.corpus.tokens.mixture import Batch

    tokens = np.ones((1, LENGTH), np.int64)
    return Batch(tokens, tokens, np.zeros((1, LENGTH), np.int64), np.zeros((1, LENGTH), np.int64))


if __name__ == "__main__":
    main()
