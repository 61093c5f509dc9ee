"""Export of a training step's checkpoints, with equal bytes for equal weights."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.core.config.schema import Config
from argosy.core.errors import StepError
from argosy.core.step.contract import StepContext
from argosy.core.store.files import publish, temporary_of, write_json
from argosy.model.weights.adapters.files import write_adapter

ADAPTER = "adapter"  # the folder of the adapter in a merged export


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
        dtype: precision of the weights that are written."""

    context: StepContext
    stage: str
    tokenizer: Any
    tokens_before: int
    chat: bool = False
    dtype: str = "float32"

    def write(self, name: str, model: Any, step: int, tokens: int, weights: Mapping[str, Any] | None = None) -> None:
        """Write `checkpoints/<name>`, whole or not at all, and register it; of several processes, rank 0 does.

        `tokens`: tokens of the phase. `weights`: those of the model where it holds parts of them only."""
        if self.context.rank:
            return
        target, total = self.context.out / self.path(name), self.tokens_before + tokens
        temporary = temporary_of(target)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        about = {"stage": self.stage, "step": step, "tokens": total, "chat": self.chat}
        with self.context.progress.during("export"):
            _save(model, temporary, target, weights, self.dtype)
            self.tokenizer.save_pretrained(temporary)
            write_json(temporary / "argosy.json", about)
            publish(temporary, target)
        if self.dtype != "float32" and step:
            print(f"{self.path(name)}: weights rounded to {self.dtype} (export_dtype); the step's held-out results are "
                  "those of its float32 weights, an evaluation's those of the rounded ones", flush=True)
        self.context.tracker.model(name, target, stage=self.stage, step=step, tokens=total)

    def describe(self, name: str, step: int, tokens: int) -> Export:
        """Return the outputs' record of a checkpoint."""
        return Export(name=name, path=self.path(name), step=step, tokens=self.tokens_before + tokens)

    @staticmethod
    def path(name: str) -> str:
        return f"checkpoints/{name}"


def _save(model: Any, directory: Path, place: Path, weights: Mapping[str, Any] | None, dtype: str) -> None:
    """Write a model that will lie in `place`: one with adapters merged, with the adapter below, or the adapter alone,
    with the configuration of its base."""
    from argosy.model.weights.adapters.layers import adapters_of, merged_weights

    adapted = adapters_of(model)
    if adapted is None:
        save_weights(model, directory, weights, dtype)
    elif adapted.merge:
        save_weights(model, directory, merged_weights(model, weights), dtype)
        write_adapter(model, directory / ADAPTER, place / ADAPTER, weights)
    else:
        save_config(model, directory, dtype)
        write_adapter(model, directory, place, weights)


def save_weights(
    model: Any, directory: Path, weights: Mapping[str, Any] | None = None, dtype: str = "float32"
) -> None:
    """Write the files of `model.save_pretrained`, the weights (the model's, or those given) as one, in `dtype`.

    Raises StepError: a weight is beyond what float16 holds.

    Its own way imports DeepSpeed, to unwrap a model that is never wrapped here: two seconds of a laptop's step."""
    from safetensors.torch import save_file

    if weights is None:
        weights = whole_weights(model)
    rounded = {name: _rounded(name, tensor, dtype) for name, tensor in weights.items()}
    save_file(_as_published(model, rounded), directory / "model.safetensors", metadata={"format": "pt"})
    save_config(model, directory, dtype)


def _rounded(name: str, tensor: Any, dtype: str) -> Any:
    import torch

    if tensor.dtype != torch.float32 or dtype == "float32":
        return tensor
    made = tensor.to(getattr(torch, dtype))
    if dtype == "float16" and not made.isfinite().all() and tensor.isfinite().all():
        raise StepError(f"export_dtype=float16 holds numbers up to 65,504, and {name} has larger ones: set "
                        "export_dtype=bfloat16, or float32")
    return made


def whole_weights(model: Any) -> dict[str, Any]:
    """Return a model's weights by name, tied ones once, on the CPU; where it has adapters, merged with them."""
    from argosy.model.weights.adapters.layers import adapters_of, merged_weights

    if adapters_of(model) is not None:
        return merged_weights(model)
    tied = set(model.all_tied_weights_keys)
    return {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(model.state_dict().items())
            if name not in tied}


def save_config(model: Any, directory: Path, dtype: str = "float32") -> None:
    """Write config.json, with the weights' `dtype`, and how texts are generated."""
    import torch

    model.config.architectures = [type(model).__name__]
    model.config.dtype = getattr(torch, dtype)
    if getattr(model.config, "quantization_config", None) is not None:  # of the training; what is written is whole
        del model.config.quantization_config
    model.config.save_pretrained(directory)
    model.config.dtype = torch.float32  # of the model, which may be trained on
    if model.can_generate():
        model.generation_config.save_pretrained(directory)


def _as_published(model: Any, weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights by the names of the published models, each expert's by itself, which transformers joins."""
    if not hasattr(model.config, "num_local_experts"):
        return dict(weights)
    from transformers.core_model_loading import revert_weight_conversion

    parts = revert_weight_conversion(model, dict(weights))
    return {name: tensor.contiguous() for name, tensor in sorted(parts.items())}
