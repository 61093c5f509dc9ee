"""Speed of the training loop, beside the Trainer of Hugging Face and a plain loop of torch.

python -m benchmarks.training            # --gpu: 0.1, 1 and 7 B parameters on one GPU, beside the plain loop

The same Llama, samples, batch, attention and precision, AdamW and clipping, no ZeRO. Each side is a process of its own,
in the environment that it usually has, and they take turns within each round. A ratio is the median over rounds of the
peer's seconds over ours in that round, so that what other work takes from the machine is taken from all. The last line
is JSON; its ratios are the worse of the two sizes."""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from argosy.core.lazy import torch
from argosy.core.step.contract import Progress, StepContext
from argosy.core.step.process import make_deterministic
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.tokens.mixture import Mixture
from argosy.corpus.tokens.reader import TokenizedChannel
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from benchmarks.side_by_side import Side, environment, in_turns, median_ratio

THREADS = 1  # of each side; with more, other work on the machine stops all of them wherever it stops one
CHANNELS = ("code", "en", "zh")
WARM = 1  # steps of each turn that are not measured
SHAPES = {"1m": (ModelConfig(num_hidden_layers=3), 4096),  # with the vocabulary
          "29m": (ModelConfig(num_hidden_layers=4, hidden_size=512, intermediate_size=1376, num_attention_heads=8,
                              num_key_value_heads=8), 32000)}
RATE = 1e-3
TURNS = {"1m": (10, 16), "29m": (3, 8)}  # measured steps of a turn, and rounds
ON_GPU = {"100m": (768, 12, 12, 16), "1b": (2048, 16, 32, 8), "7b": (4096, 32, 32, 4)}  # width, blocks, heads, samples
LENGTH = 2048  # of their samples
SHAPES |= {size: (ModelConfig(hidden_size=width, intermediate_size=width * 43 // 16, num_hidden_layers=blocks,
                              num_attention_heads=heads, num_key_value_heads=heads), 32000)
           for size, (width, blocks, heads, _) in ON_GPU.items()}
Work = Callable[[int], dict[str, float]]  # of so many steps: their seconds, and what else is known


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.training", description=__doc__)
    parser.add_argument("--rounds", type=float, default=1.0, metavar="X", help="X times the usual rounds")
    parser.add_argument("--gpu", nargs="*", choices=ON_GPU, metavar="SIZE", help=f"of {', '.join(ON_GPU)}; all without")
    args = parser.parse_args()
    if args.gpu is not None and not torch.cuda.is_available():
        parser.error("--gpu: torch sees no GPU")
    sizes = TURNS if args.gpu is None else args.gpu or ON_GPU
    found = {size: measure(size, args.rounds) for size in sizes}
    figures = {key: min(of[key] for of in found.values()) for key in ("trainer_ratio", "loop_ratio")
               if all(key in of for of in found.values())}
    figures |= {f"{key}_{size}": value for size, of in found.items() for key, value in of.items()}
    print(json.dumps({"name": "training", "unit": "tokens/s", **figures, "threads": THREADS}))


def measure(size: str, share: float) -> dict[str, float]:
    """Return the figures of a size of model, of `share` of its rounds."""
    steps, rounds = TURNS.get(size, (10, 3))
    sides = {name: Side(make, size, given=environment(name, THREADS)) for name, make in SIDES.items()
             if name != "trainer" or size in TURNS}
    works = {name: partial(side.work, steps=steps) for name, side in sides.items()}
    for work in works.values():
        work()  # the first pass allocates
    turns = in_turns(works, rounds * share, f"{size}, {WARM + steps} steps")
    for side in sides.values():
        side.close()
    seconds = {name: [turn.result["seconds"] / steps for turn in each] for name, each in turns.items()}
    median, last = {name: statistics.median(each) for name, each in seconds.items()}, turns["ours"][-1].result
    trainers = {"trainer_ratio": median_ratio(seconds["trainer"], seconds["ours"])} if "trainer" in seconds else {}
    found = {**trainers,
             "loop_ratio": median_ratio(seconds["plain"], seconds["ours"]),
             **({"mfu": last["mfu"]} if "mfu" in last else {}),
             **{name: config(size).tokens_per_step / each for name, each in median.items()}}  # fmt: skip
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def config(size: str, steps: int = 1) -> TrainConfig:
    """Return the phase that is a turn of `steps` measured steps, among which one log falls."""
    gpu = torch.cuda.is_available()
    length, batch = (LENGTH, ON_GPU[size][-1]) if size in ON_GPU else (1024, 16) if gpu else (512, 2)
    return TrainConfig(sequence_length=length, global_batch_size=batch, tokens=(WARM + steps + 1) * length * batch,
                       dtype="bfloat16" if gpu else "float32", engine="torch", attention="sdpa", document_mask=False,
                       weight_decay=0.0, schedule="constant", learning_rate=RATE, threads=THREADS, log_every=steps,
                       save_every=10**9, recompute="full" if size == "7b" else "none")  # fmt: skip


class Laps:
    """The seconds of the steps after the first WARM ones; it waits for the device before and after them alone."""

    def __init__(self, steps: int) -> None:
        self._steps, self._done, self._began, self.seconds = steps, 0, 0.0, 0.0

    def step(self) -> None:
        self._done += 1
        if self._done == WARM:
            self._began = now()
        if self._done == WARM + self._steps:
            self.seconds = now() - self._began


def now() -> float:
    """Return seconds: on a CPU those of the processor, which other work disturbs less and one thread all needs."""
    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def start(size: str) -> tuple[Any, Mixture]:
    """Return the model with the weights that all sides begin with, and the samples."""
    from argosy.model.train.phase import build_model

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    shape, vocabulary = SHAPES[size]
    shape = shape.model_copy(update={"max_position_embeddings": config(size).sequence_length})
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return build_model(shape, vocabulary, {}).to(device), _mixture(vocabulary, config(size).sequence_length)


def _mixture(vocabulary: int, length: int) -> Mixture:
    rng = np.random.default_rng(0)
    channels = {}
    for name in CHANNELS:
        offsets = np.concatenate([[0], np.cumsum(rng.integers(20, 400, 2000))])
        tokens = rng.zipf(1.3, int(offsets[-1])).clip(max=vocabulary - 1).astype(np.uint16)
        channels[name] = TokenizedChannel(name, tokens, offsets, np.diff(offsets))
    return Mixture(channels, {}, length, 0)


def batches(mixture: Mixture, phase: TrainConfig, steps: int) -> tuple[Any, Any]:
    """Return the samples of a turn as tensors, (samples, length): inputs, and the targets that follow them."""
    batch = mixture.batch(range((WARM + steps) * phase.global_batch_size))
    return torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)


def ours(size: str) -> Work:
    """Make the work of our loop as a step runs it, with its determinism, tracker and progress.

    Held-out losses and exports come between steps, and are no part of it."""
    make_deterministic(0, THREADS)
    from argosy.model.train.engines import make_engine
    from argosy.model.train.loop import Loop
    from argosy.model.train.parallelism import Group
    from argosy.model.train.updates import Sampled

    model, mixture = start(size)
    engine = make_engine(model, len(CHANNELS), config(size), Group(device=model.device))

    def work(steps: int) -> dict[str, float]:
        phase, exporter = config(size, steps), cast(Any, SimpleNamespace(tokens_before=0))
        with TemporaryDirectory() as folder:
            tracker, laps = Last(Path(folder, "tracking")), Laps(steps)
            context = StepContext(Path(folder), tracker, Counted(Path(folder, "progress.json"), laps))
            Loop(phase, context, engine, Sampled(phase, context, engine, mixture, None, exporter)).run()
            tracker.close()
        mfu = {"mfu": tracker.last["perf/mfu"]} if "perf/mfu" in tracker.last else {}
        return {"seconds": laps.seconds, **mfu}

    return work


class Counted(Progress):
    """Progress that tells the laps of a step's end too."""

    def __init__(self, path: Path, laps: Laps) -> None:
        super().__init__(path)
        self._laps = laps

    def update(self, done: float, total: float, unit: str = "", note: str = "", *, force: bool = False) -> None:
        super().update(done, total, unit, note, force=force)
        self._laps.step()


class Last(Tracker):
    """Tracker that keeps the last metrics of training."""

    last: Mapping[str, float] = {}

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        super().metrics(values, step)
        self.last = values if "train/loss" in values else self.last


def trainer(size: str) -> Work:
    """Make the work of the Trainer, from its `train()` on, with its own optimizer and data loader."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Counting(TrainerCallback):
        laps = Laps(1)

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.laps.step()

    model, mixture = start(size)
    folder, gpu, callback = TemporaryDirectory(), model.device.type == "cuda", Counting()

    def work(steps: int) -> dict[str, float]:
        inputs, targets = batches(mixture, config(size), steps)
        labels = targets.roll(1, dims=1)  # the model shifts them itself; each sample's last target is lost
        rows = [{"input_ids": a, "labels": b} for a, b in zip(inputs, labels, strict=True)]
        phase, callback.laps = config(size, steps), Laps(steps)
        arguments = TrainingArguments(
            output_dir=folder.name, max_steps=WARM + steps, logging_steps=steps, lr_scheduler_type="constant", bf16=gpu,
            optim="adamw_torch_fused", use_cpu=not gpu, dataloader_pin_memory=gpu, save_strategy="no", report_to="none",
            disable_tqdm=True, learning_rate=RATE, weight_decay=0.0, adam_beta1=phase.beta1, adam_beta2=phase.beta2,
            max_grad_norm=phase.max_grad_norm, remove_unused_columns=False, train_sampling_strategy="sequential",
            per_device_train_batch_size=phase.global_batch_size)
        Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[callback]).train()
        return {"seconds": callback.laps.seconds}

    return work


def plain(size: str) -> Work:
    """Make the work of the loop that everybody writes: logits, cross-entropy, clipping, AdamW, a loss now and then."""
    import torch.nn.functional as F

    model, mixture = start(size)
    phase, device = config(size), model.device
    if phase.recompute == "full":
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, (phase.beta1, phase.beta2), weight_decay=0.0, fused=True)

    def work(steps: int) -> dict[str, float]:
        inputs, targets = batches(mixture, phase, steps)
        laps = Laps(steps)
        for step in range(1, WARM + steps + 1):
            rows = slice((step - 1) * phase.global_batch_size, step * phase.global_batch_size)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                logits = model(inputs[rows].to(device)).logits
                loss = F.cross_entropy(logits.float().flatten(0, 1), targets[rows].to(device).flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), phase.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
            if step % steps == 0:
                loss.item()  # as a log would ask
            laps.step()
        return {"seconds": laps.seconds}

    return work


SIDES = {"ours": ours, "trainer": trainer, "plain": plain}


if __name__ == "__main__":
    main()
