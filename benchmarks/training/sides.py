"""The sides of the benchmark of training: our loop, the Trainer of Hugging Face, a plain loop of torch."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np

from argosy.core.step.contract import Progress, StepContext
from argosy.core.step.process import make_deterministic
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.tokens.mixture import Mixture
from argosy.corpus.tokens.reader import TokenizedChannel
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig

THREADS = 1  # of each side; with more, other work on the machine stops all of them wherever it stops one
CHANNELS = ("code", "en", "zh")
WARM = 1  # steps of each turn that are not measured
SMALL = ModelConfig(num_hidden_layers=3)
LARGE = ModelConfig(num_hidden_layers=4, hidden_size=512, intermediate_size=1376, num_attention_heads=8,
                    num_key_value_heads=8)
SHAPES = {"1m": (SMALL, 4096), "29m": (LARGE, 32000)}  # with the vocabulary
RATE = 1e-3
Work = Callable[[int], dict[str, float]]  # of so many steps: seconds, and the last loss


def config(steps: int = 1) -> TrainConfig:
    """Return the phase that is a turn of `steps` measured steps, among which one log falls."""
    import torch

    gpu = torch.cuda.is_available()
    length, batch = (1024, 16) if gpu else (512, 2)
    return TrainConfig(sequence_length=length, global_batch_size=batch, tokens=(WARM + steps + 1) * length * batch,
                       dtype="bfloat16" if gpu else "float32", engine="torch", attention="sdpa", document_mask=False,
                       weight_decay=0.0, schedule="constant", learning_rate=RATE, threads=THREADS, log_every=steps,
                       save_every=10**9)  # fmt: skip


class Laps:
    """The seconds of the steps after the first WARM ones; it waits for the device before and after them alone."""

    def __init__(self, steps: int) -> None:
        self._steps, self._done, self._began, self.seconds = steps, 0, 0.0, 0.0

    def step(self) -> None:
        """Count a step that has ended."""
        self._done += 1
        if self._done == WARM:
            self._began = now()
        if self._done == WARM + self._steps:
            self.seconds = now() - self._began


def now() -> float:
    """Return seconds: on a CPU those of the processor, which other work disturbs less and one thread all needs."""
    import torch

    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def start(size: str) -> tuple[Any, Mixture, Any]:
    """Return the model with the weights that all sides begin with, the samples, and the device."""
    import torch

    from argosy.model.train.phase import build_model

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    shape, vocabulary = SHAPES[size]
    shape = shape.model_copy(update={"max_position_embeddings": config().sequence_length})
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return build_model(shape, vocabulary, {}).to(device), _mixture(vocabulary), device


def _mixture(vocabulary: int) -> Mixture:
    """Return samples of made-up documents."""
    rng = np.random.default_rng(0)
    channels = {}
    for name in CHANNELS:
        offsets = np.concatenate([[0], np.cumsum(rng.integers(20, 400, 2000))])
        tokens = rng.zipf(1.3, int(offsets[-1])).clip(max=vocabulary - 1).astype(np.uint16)
        channels[name] = TokenizedChannel(name, tokens, offsets, np.diff(offsets))
    return Mixture(channels, {}, config().sequence_length, 0)


def batches(mixture: Mixture, steps: int) -> tuple[Any, Any]:
    """Return the samples of a turn as tensors, (samples, length): inputs, and the targets that follow them."""
    import torch

    batch = mixture.batch(range((WARM + steps) * config().global_batch_size))
    return torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)


def ours(size: str) -> Work:
    """Make the work of our loop as a step runs it, with its determinism, tracker and progress; of 0 steps, it is to sum
    a step's losses by channel."""
    make_deterministic(0, THREADS)
    from argosy.model.train.engines import make_engine
    from argosy.model.train.loop import Loop
    from argosy.model.train.parallel import Group
    from argosy.model.train.updates import Sampled

    model, mixture, device = start(size)
    engine = make_engine(model, len(CHANNELS), config(), Group(device=device))
    # held-out losses and exports come between steps, and are no part of a turn
    heldout, exporter = SimpleNamespace(by_channel=lambda _: {}), SimpleNamespace(tokens_before=0, write=lambda *_: 0)

    def work(steps: int) -> dict[str, float]:
        if not steps:
            return {"seconds": _channels(mixture, engine.group)}
        with TemporaryDirectory() as folder:
            tracker, laps = Last(Path(folder, "tracking")), Laps(steps)
            context = StepContext(Path(folder), tracker, Counted(Path(folder, "progress.json"), laps))
            updates = Sampled(config(steps), context, engine, mixture, heldout, exporter)  # type: ignore[arg-type]
            Loop(config(steps), context, engine, updates).run()
            tracker.close()
        mfu = {"mfu": tracker.last["perf/mfu"]} if "perf/mfu" in tracker.last else {}
        return {"seconds": laps.seconds, "loss": tracker.last["train/loss"], **mfu}

    return work


def _channels(mixture: Mixture, group: Any) -> float:
    """Return the seconds a step that losses by channel take: all that would not be there without them."""
    import torch

    from argosy.model.train.layers.loss import sum_by_channel
    from argosy.model.train.updates import LossWindow

    batch, window, often = mixture.batch(range(config().global_batch_size)), LossWindow(CHANNELS, group), 100
    channels = torch.from_numpy(batch.channels).to(group.device)
    nats = torch.rand(channels.numel(), device=group.device)
    began = now()
    for number in range(often):
        counts = torch.bincount(torch.from_numpy(batch.channels.ravel()), minlength=len(CHANNELS)).double()
        window.add(sum_by_channel(nats, channels, len(CHANNELS)), counts.to(group.device))
        if number % TrainConfig().log_every == 0:
            window.take()
    return (now() - began) / often


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


def counting() -> Any:
    """Return a callback of a Trainer that tells its `laps` of a step's end, and keeps the last `loss`."""
    from transformers import TrainerCallback

    class Counting(TrainerCallback):
        """Callback of laps and loss."""

        laps, loss = Laps(1), 0.0

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.laps.step()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            self.loss = float((logs or {}).get("loss", self.loss))

    return Counting()


def trainer(size: str) -> Work:
    """Make the work of the Trainer, from its `train()` on, with its own optimizer and data loader."""
    from transformers import Trainer, TrainingArguments

    model, mixture, device = start(size)
    folder, gpu = TemporaryDirectory(), device.type == "cuda"
    callback = counting()

    def work(steps: int) -> dict[str, float]:
        inputs, targets = batches(mixture, steps)
        labels = targets.roll(1, dims=1)  # the model shifts them itself; each sample's last target is lost
        rows = [{"input_ids": a, "labels": b} for a, b in zip(inputs, labels, strict=True)]
        phase, callback.laps = config(steps), Laps(steps)
        arguments = TrainingArguments(
            output_dir=folder.name, max_steps=WARM + steps, per_device_train_batch_size=phase.global_batch_size,
            learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0.0, adam_beta1=phase.beta1,
            adam_beta2=phase.beta2, max_grad_norm=phase.max_grad_norm, optim="adamw_torch_fused", logging_steps=steps,
            bf16=gpu, use_cpu=not gpu, save_strategy="no", report_to="none", disable_tqdm=True,
            dataloader_pin_memory=gpu, remove_unused_columns=False, train_sampling_strategy="sequential",
        )  # fmt: skip
        Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[callback]).train()
        return {"seconds": callback.laps.seconds, "loss": callback.loss}

    return work


def plain(size: str) -> Work:
    """Make the work of the loop that everybody writes: logits, cross-entropy, clipping, AdamW, a loss now and then."""
    import torch
    import torch.nn.functional as F

    model, mixture, device = start(size)
    phase = config()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, (phase.beta1, phase.beta2), weight_decay=0.0, fused=True)

    def work(steps: int) -> dict[str, float]:
        inputs, targets = batches(mixture, steps)
        laps, last = Laps(steps), 0.0
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
                last = loss.item()
            laps.step()
        return {"seconds": laps.seconds, "loss": last}

    return work


SIDES = {"ours": ours, "trainer": trainer, "plain": plain}
