"""Export of a training step's checkpoints, with equal bytes for equal weights."""

import shutil
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argosy.core.config.schema import Config
from argosy.core.errors import StepError
from argosy.core.lazy import torch
from argosy.core.step.contract import StepContext
from argosy.core.store.files import publish, temporary_of, write_json, write_tensors
from argosy.model.weights.adapters.files import write_adapter
from argosy.model.weights.checkpoint import EXPORTS
from argosy.model.weights.pretrained import load_config

ADAPTER = "adapter"  # the folder of the adapter in a merged export
FILE_BYTES = 2**28
_ROTATIONS = ("max_position_embeddings", "rope_parameters")  # beside a base of others an adapter is another model
Weights = Iterable[tuple[str, Any]]  # whole tensors by name, each made when its turn comes


class Export(Config):
    """A checkpoint that `from_pretrained` loads."""

    name: str
    path: str
    """Directory, relative to the step's."""
    step: int
    """Optimizer step of the phase."""
    tokens: int
    """Tokens of training since pretraining began."""


@dataclass(frozen=True)
class Exporter:
    """Writer of a phase's checkpoints.

    Attributes:
        tokens_before: tokens of the model's training in the phases before.
        chat: whether the checkpoint answers in the chat format.
        dtype: precision of the weights that are written.
        trained: precision of those that were trained.
        more: fields of their argosy.json."""

    context: StepContext
    stage: str
    tokenizer: Any
    tokens_before: int
    chat: bool = False
    dtype: str = "float32"
    trained: str = "float32"
    more: Mapping[str, Any] = field(default_factory=dict)

    def write(self, name: str, model: Any, step: int, tokens: int, weights: Weights | None = None) -> None:
        """Write `checkpoints/<name>`, whole or not at all, and register it; of several processes, rank 0 does.

        `tokens`: tokens of the phase. `weights`: those of the model where it holds parts of them only; the other
        processes help to put them together."""
        if self.context.rank:
            deque(weights or (), maxlen=0)
            return
        self.publish(name, step, tokens, lambda made, place: _save(model, made, place, weights, self.dtype))
        if self.dtype not in ("float32", self.trained) and step:
            print(f"{self.path(name)}: weights rounded to {self.dtype} (export_dtype); the step's held-out results are "
                  f"those of its {self.trained} weights, an evaluation's those of the rounded ones", flush=True)

    def publish(self, name: str, step: int, tokens: int, save: Callable[[Path, Path], object]) -> None:
        """Write and register a checkpoint whose model `save` writes: to the directory that it is given first, which
        will be the one that it is given second."""
        target, total = self.context.out / self.path(name), self.tokens_before + tokens
        temporary = temporary_of(target)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        about = {"stage": self.stage, "step": step, "tokens": total, "chat": self.chat, **self.more}
        with self.context.progress.during("export"):
            save(temporary, target)
            self.tokenizer.save_pretrained(temporary)
            write_json(temporary / "argosy.json", about)
            publish(temporary, target)
        self.context.tracker.model(name, target, stage=self.stage, step=step, tokens=total)

    def describe(self, name: str, step: int, tokens: int) -> Export:
        """Return the outputs' record of a checkpoint."""
        return Export(name=name, path=self.path(name), step=step, tokens=self.tokens_before + tokens)

    @staticmethod
    def path(name: str) -> str:
        return f"{EXPORTS}/{name}"


def _save(model: Any, directory: Path, place: Path, weights: Weights | None, dtype: str) -> None:
    """Write a model that will lie in `place`: one with adapters merged, with the adapter below, or the adapter alone,
    with the configuration of its base."""
    from argosy.model.weights.adapters.layers import adapters_of, merged_weights, noting

    adapted, trained = adapters_of(model), dict[str, Any]()
    if adapted is None:
        save_weights(model, directory, weights, dtype)
        return
    noted = noting(sorted(model.state_dict().items()) if weights is None else weights, trained)
    if adapted.merge:
        save_weights(model, directory, merged_weights(model, noted), dtype)
    else:
        deque(noted, maxlen=0)
        save_config(model, directory, dtype)
    below = (ADAPTER,) if adapted.merge else ()
    base = load_config(adapted.base)
    if all(getattr(base, name, None) == getattr(model.config, name, None) for name in _ROTATIONS):
        write_adapter(adapted, trained, directory.joinpath(*below), place.joinpath(*below))


def save_weights(model: Any, directory: Path, weights: Weights | None = None, dtype: str = "float32") -> None:
    """Write the files of `model.save_pretrained`, the weights (the model's, or those given) in `dtype`, each file with
    one block of them or FILE_BYTES, which is all that is held of them at a time.

    Raises StepError: a weight is beyond what float16 holds.

    Its own way holds the whole model, and imports DeepSpeed, to unwrap a model that is never wrapped here: two seconds
    of a laptop's step."""
    files = _Files(directory)
    for name, tensor in whole_weights(model).items() if weights is None else weights:
        for published, part in _as_published(model, {name: _rounded(name, tensor, dtype)}).items():
            files.add(published, part)
    files.end()
    save_config(model, directory, dtype)


class _Files:
    """The safetensors files of a model and, where they are several, their index, in the names of the hub."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, Any] = {}
        self._block, self._size = "", 0
        self._written: list[list[str]] = []
        self._bytes = 0

    def add(self, name: str, tensor: Any) -> None:
        """Take a tensor; what is held is written first where the file is full and its last block complete."""
        block = ".".join(name.split(".")[:3])
        if self._size + tensor.nbytes > FILE_BYTES and block != self._block and self._held:
            self._write()
        self._held[name], self._block = tensor, block
        self._size += tensor.nbytes

    def _write(self) -> None:
        held = {name: tensor.contiguous() for name, tensor in self._held.items()}
        write_tensors(held, self._directory / f"{len(self._written)}.safetensors", {"format": "pt"})
        self._written.append(list(self._held))
        self._bytes += self._size
        self._held, self._size = {}, 0

    def end(self) -> None:
        """Write what is left, and name the files."""
        self._write()
        count, index = len(self._written), {}
        for number, names in enumerate(self._written):
            file = f"model-{number + 1:05d}-of-{count:05d}.safetensors" if count > 1 else "model.safetensors"
            (self._directory / f"{number}.safetensors").rename(self._directory / file)
            index.update(dict.fromkeys(names, file))
        if count > 1:
            write_json(self._directory / "model.safetensors.index.json",
                       {"metadata": {"total_size": self._bytes}, "weight_map": dict(sorted(index.items()))})


def _rounded(name: str, tensor: Any, dtype: str) -> Any:
    if tensor.dtype not in (torch.float32, torch.bfloat16):
        return tensor
    made = tensor.to(getattr(torch, dtype))
    if dtype == "float16" and not made.isfinite().all() and tensor.isfinite().all():
        raise StepError(f"export_dtype=float16 holds numbers up to 65,504, and {name} has larger ones: set "
                        "export_dtype=bfloat16, or float32")
    return made


def whole_weights(model: Any) -> dict[str, Any]:
    """Return a model's weights by name, tied ones once, on the CPU; where it has adapters, merged with them."""
    from argosy.model.weights.adapters.layers import adapters_of, merged_weights

    own, tied = sorted(model.state_dict().items()), set(model.all_tied_weights_keys)
    if adapters_of(model) is not None:
        return dict(merged_weights(model, own))
    return {name: tensor.detach().cpu().contiguous() for name, tensor in own if name not in tied}


def save_config(model: Any, directory: Path, dtype: str = "float32") -> None:
    """Write config.json, with the weights' `dtype`, and how texts are generated."""
    model.config.architectures = [type(model).__name__]
    model.config.dtype = getattr(torch, dtype)
    if getattr(model.config, "quantization_config", None) is not None:  # of the training; what is written is whole
        del model.config.quantization_config
    model.config.save_pretrained(directory)
    model.config.dtype = torch.float32  # of the model, which may be trained on
    if model.can_generate():
        model.generation_config.save_pretrained(directory)


def _as_published(model: Any, weights: dict[str, Any]) -> dict[str, Any]:
    """Return the weights by the names of the published models, each expert's by itself, which transformers joins."""
    if not hasattr(model.config, "num_local_experts"):
        return weights
    from transformers.core_model_loading import revert_weight_conversion

    parts = revert_weight_conversion(model, weights)
    return {name: tensor.contiguous() for name, tensor in sorted(parts.items())}
