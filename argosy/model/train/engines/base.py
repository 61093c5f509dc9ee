"""Base of every engine: one optimizer step over this process's share of a batch, its state, its weights."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from argosy.core.errors import InputError
from argosy.corpus.tokens.mixture import Batch
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.train.blocks import compile_blocks, recompute
from argosy.model.train.clock import Clock
from argosy.model.train.config import TrainConfig
from argosy.model.train.engines.fitting import MicroBatch
from argosy.model.train.engines.parts import WEIGHT, Held, Parts, Place, write_parts
from argosy.model.train.layers.loss import LossModule
from argosy.model.train.optim import UpdateSize
from argosy.model.train.parallelism import Group, local_part
from argosy.model.train.parallelism.mesh import TOKENS, Mesh, divide_sequence
from argosy.model.train.parallelism.shares import Shares
from argosy.model.train.precision import set_precision
from argosy.model.train.watch import NORM, UPDATE
from argosy.model.weights.drawn import Numbers
from argosy.model.weights.unfilled import give_memory, numbers_of

Wrap = Callable[[Any], Any] | None


class Engine(ABC):
    """One optimizer step at a time over this process's share of a global batch.

    Args:
        wrap: makes the module of `model`, on its device; None: LossModule. The module has the model as `model`, and its
            forward returns the loss of a micro-batch as a sum, (), and sums to be logged, (k,) float64, detached.

    Attributes:
        module: the loss module, on the group's device.
        clock: the times of a step's parts, which the step's laps are of."""

    def __init__(self, model: Any, channels: int, config: TrainConfig, group: Group, wrap: Wrap = None) -> None:
        set_precision(model, config, group.device)
        self.config, self.group = config, group
        self.micro_batch = MicroBatch(config, group)
        self.channel_weights: Tensor | None = None
        dtype = getattr(torch, config.dtype)
        if problem := config.shape_problem(model.config.to_dict()):
            raise InputError(problem)
        self.mesh = Mesh(group, {name.removesuffix("_parallel"): size for name, size in config.divisors.items()})
        recompute(model, config.recompute, float(config.recompute_blocks))
        if config.compile:
            compile_blocks(model, group.device)
        self.shares = Shares(model, self.mesh)
        model._apply(lambda each: each if each.is_meta else each.to(group.device))
        self.module: Any = wrap(model) if wrap else LossModule(model, channels, dtype, config.z_loss,
                                                               config.sequence_length, config.attention)
        self.clock = Clock(group.device, self.alone)
        model.get_decoder().register_forward_hook(lambda *_: self.clock.lap("forward"))
        self.module.register_forward_hook(lambda *_: self.clock.lap("loss"))
        divide_sequence(model, self.mesh, config.sequence_attention)
        if self.mesh.over(*TOKENS) is not None:
            self.module.divide(self.mesh.over(*TOKENS), self._part("sequence"), self._part(*TOKENS))

    @property
    def settled(self) -> bool:
        """Whether all processes have one model, so that a state can be written."""
        return True

    def as_agreed(self) -> AbstractContextManager[None]:
        """Let the module have the model inside that all processes have agreed on."""
        return nullcontext()

    def _over_samples(self, tensor: Tensor) -> Tensor:
        """Sum over the processes whose samples make a gradient together."""
        return self.group.sum(tensor)

    @property
    def _parameters(self) -> list[tuple[str, Any]]:
        """List the parameters by name, tied ones once; an engine may have replaced them by parts."""
        return list(self.module.model.named_parameters())

    @property
    def _named(self) -> list[tuple[str, Any]]:
        """List the trained parameters by name."""
        return [(name, each) for name, each in self._parameters if each.requires_grad]

    def _place(self, tensor: Tensor, name: str) -> Place:
        """Return where what this process holds of weight `name`, or of a tensor of its shape, lies in the whole."""
        return Place(*self.shares.place(tuple(tensor.shape), name))

    @torch.no_grad()
    def checksums(self) -> dict[tuple[Any, ...], int]:
        """Return a checksum of the part that this process holds of each weight, by its name and which part it is."""
        held = {(name, *self._place(each, name).start, self.mesh.place["tensor"]): local_part(each.detach())
                for name, each in self._parameters}
        held = {key: part for key, part in held.items() if part.numel()}  # ZeRO-3 has none here
        sums = torch.stack([torch.hash_tensor(part) for part in held.values()]).tolist() if held else []
        return dict(zip(held, sums, strict=True))

    @torch.no_grad()
    def _fill(self, model: Any) -> None:
        """Give what this process has of a model without memory its memory and numbers, one whole tensor at a time."""
        if (numbers := numbers_of(model)) is None:
            return
        names = {id(each): name for name, each in self._parameters}

        def fill(bare: Any, made: Any) -> None:
            name = names[id(bare)]
            self._take(made, name, numbers, name)
            numbers.check(name, local_part(made.detach()))

        give_memory(self.module, self.group.device, fill)

    @abstractmethod
    def _take(self, parameter: Any, name: str, numbers: Numbers, key: str) -> None:
        """Read into weight `name` what this process holds of it, of tensor `key` of `numbers`."""

    def positions(self, step: int) -> range:
        """Return this process's samples of step `step` (0, 1, ...)."""
        place, groups = self.mesh.samples
        share = self.config.global_batch_size // groups
        start = step * self.config.global_batch_size + place * share
        return range(start, start + share)

    def train_step(self, batch: Batch, learning_rate: float) -> tuple[Tensor, Tensor, Tensor]:
        """Train on this process's samples.

        Returns:
            Summed nats by channel, (channels,) float64; number of targets by channel, (channels,); the gradient's
            norm before clipping, (). The first two are this process's alone, and nothing waits for the device."""
        tensors = self._tensors(batch)
        own = self._part(*TOKENS)
        scored = torch.from_numpy(batch.channels[:, own][batch.targets[:, own] != IGNORED])
        counts = torch.bincount(scored, minlength=self.module.channels).double().to(self.group.device)
        counts *= self.mesh.counts
        targets = self._over_samples((counts if self.channel_weights is None else counts * self.channel_weights).sum())
        self.clock.lap("collate")
        sums = self.micro_batch.run(lambda: self._accumulate(tensors, targets), self._forget) * self.mesh.counts
        self.clock.lap("backward")
        norm = self._update(learning_rate)
        self.clock.lap("optimizer")
        return sums, counts, norm

    def update(self, parts: Sequence[tuple[Any, ...]], total: Tensor | float,
               learning_rate: float) -> tuple[Tensor, Tensor]:
        """Take an optimizer step over micro-batches, as many in each process, one a forward of the module.

        `total`: what the summed losses of all processes are divided by. Returns the modules' sums, (k,), of this
        process alone, and the gradient's norm before clipping, ()."""
        sums = self._sum_parts(parts, torch.as_tensor(total, device=self.group.device))
        norm = self._update(learning_rate)
        self.clock.lap("optimizer")
        return sums, norm

    def _accumulate(self, tensors: list[Tensor], targets: Tensor) -> Tensor:
        """Add the gradients of all micro-batches; returns summed nats by channel."""
        parts = zip(*(torch.split(tensor, self.micro_batch.size) for tensor in tensors), strict=True)
        return self._sum_parts(list(parts), targets)

    def _sum_parts(self, parts: Sequence[tuple[Any, ...]], total: Tensor) -> Tensor:
        sums: Tensor | float = 0.0
        for number, part in enumerate(parts):
            sums = sums + self._backward(part, total, last=number == len(parts) - 1)
            self.clock.lap("backward")
        return torch.as_tensor(sums)

    def _forget(self) -> None:
        """Drop the gradients of an attempt that ran out of memory, and what the allocator keeps of it."""
        for _, parameter in self._named:
            parameter.grad = None
        torch.accelerator.empty_cache()

    def weigh(self, weights: Sequence[float]) -> None:
        """Have the targets of each channel weigh so much in the loss, (channels,)."""
        self.channel_weights = torch.tensor(weights, dtype=torch.float64, device=self.group.device)
        self.module.weights = self.channel_weights.float()

    def _tensors(self, batch: Batch) -> list[Tensor]:
        arrays = [each[:, self._part(*TOKENS)] for each in (batch.inputs, batch.targets, batch.channels)]
        if self.config.document_mask:
            arrays.append(batch.documents)
        return [torch.from_numpy(array).to(self.group.device) for array in arrays]

    def _part(self, *axes: str) -> slice:
        """Return the positions of each sample that this process has, where those along `axes` share it, in order."""
        start, length = 0, self.config.sequence_length
        for axis in axes:
            length //= self.mesh.sizes[axis]
            start += length * self.mesh.place[axis]
        return slice(start, start + length)

    @abstractmethod
    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        """Add a micro-batch's gradient, of the mean over `targets`; returns its summed nats by channel."""

    @abstractmethod
    def _update(self, learning_rate: float) -> Tensor:
        """Clip, step, zero; returns the gradient's norm before clipping."""

    @cached_property
    def _size(self) -> UpdateSize | None:
        """Return what measures updates, or None where the engine cannot, which it says."""
        return UpdateSize(self.group, [(*self._place(each, name), self.shares.copies(name, each))
                                       for name, each in self._named])

    def _compared(self, weights: Iterable[Any]) -> AbstractContextManager[None]:
        """Measure the update that is made of the trained weights inside."""
        parts = [local_part(getattr(each, "ds_tensor", each).detach()) for each in weights]
        return self._size.over(parts) if self._size else nullcontext()

    def sizes(self, norm: Tensor) -> dict[str, float]:
        """Return the norm of the last gradient and the size of the last update, as they are logged and watched."""
        return {NORM: float(norm)} | ({UPDATE: float(self._size.last)} if self._size else {})

    @property
    def holds_whole(self) -> bool:
        """Whether each process has all of the model as plain tensors, so that it can generate with it."""
        return not self.mesh.divides

    @property
    def alone(self) -> tuple[str, ...]:
        """The parts of a step in which no process waits for another."""
        if self.config.pipeline_parallel > 1:  # where parts overlap
            return ("read",)
        whole = self.holds_whole or (self.config.engine.name == "ddp" and not self.mesh.divides)
        return ("read", "forward", "loss") if whole else ("read", "loss")

    def measures(self) -> dict[str, float]:
        """Return what the engine adds to the log."""
        return {}

    def save(self, directory: Path, *, weights: bool = True) -> None:
        """Write the optimizer below `directory`, and the `weights` unless that is false; every process calls it."""
        held = (each for each in self._state() if weights or not each[0].startswith(f"{WEIGHT}/"))
        write_parts(directory, self.group, held)

    @property
    def holds_parts(self) -> bool:
        """Whether what is saved lies in this process as it is, so that it can be written while gradients are computed.
        """
        return True

    def load(self, directory: Path) -> None:
        """Read back what an engine of any kind and number of processes wrote. Raises StepError: it is no state."""
        self.restore(Parts(directory))

    def restore(self, parts: Parts, *, weights: bool = True) -> None:
        """Take over the optimizer's tensors of a state, and the `weights` unless that is false."""
        with torch.no_grad():
            self._restore(parts, weights=weights)

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the whole weights as `state_dict` names them, tied ones once, on the CPU, in rank 0. The others, which
        put them together with it, go through this to its end and see none."""
        model = self.module.model
        tied = set(model.all_tied_weights_keys)
        for name, tensor in sorted(model.state_dict(keep_vars=True).items()):
            if name not in tied:
                whole = self._whole(tensor, name)
                if self.group.rank == 0:
                    yield name, whole.detach().cpu().contiguous()

    @abstractmethod
    def _whole(self, tensor: Tensor, name: str) -> Tensor:
        """Put weight `name`, or what the optimizer keeps of it, together; a process may hold a part only."""

    def weights_by_name(self) -> Iterator[tuple[str, Callable[[], Tensor]]]:
        """Yield the trained weights by name, with how they are put together."""
        for name, parameter in self._named:
            yield name, partial(self._whole, parameter, name)

    @abstractmethod
    def _state(self) -> Iterator[Held]:
        """Yield what this process holds of the weights, and of what the optimizer keeps of each."""

    @abstractmethod
    def _restore(self, parts: Parts, *, weights: bool) -> None:
        """Take over the optimizer's tensors of a state, and its `weights` or keep those that are there."""
