"""Exports: checkpoints that `AutoModelForCausalLM` and `AutoTokenizer` load, with equal bytes for equal weights."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.step import StepContext
from argosy.storage import publish, temporary_of, write_json
from argosy.training.config import Export


@dataclass(frozen=True)
class Exporter:
    """Writes the checkpoints of one phase.

    Attributes:
        stage: the step's name, such as "pretrain".
        tokenizer: saved into each checkpoint.
        tokens_before: tokens that the model was trained on in the phases before.
        chat: whether the checkpoint answers in the chat format.
    """

    context: StepContext
    stage: str
    tokenizer: Any
    tokens_before: int
    chat: bool = False

    def write(self, name: str, model: Any, step: int, tokens: int) -> None:
        """Write `checkpoints/<name>`, whole or not at all, and register it; `tokens` are the phase's."""
        target = self.context.out / self.path(name)
        temporary = temporary_of(target)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        save_weights(model, temporary)
        self.tokenizer.save_pretrained(temporary)
        total = self.tokens_before + tokens
        write_json(temporary / "argosy.json", {"stage": self.stage, "step": step, "tokens": total, "chat": self.chat})
        publish(temporary, target)
        self.context.tracker.model(name, target, stage=self.stage, step=step, tokens=total)

    def describe(self, name: str, step: int, tokens: int) -> Export:
        """What the outputs say of a checkpoint."""
        return Export(name=name, path=self.path(name), step=step, tokens=self.tokens_before + tokens)

    @staticmethod
    def path(name: str) -> str:
        """Path of a checkpoint below the step's directory."""
        return f"checkpoints/{name}"


def save_weights(model: Any, directory: Path) -> None:
    """What `model.save_pretrained` writes, as one file. Its own way imports DeepSpeed, to unwrap what we never wrap,
    which costs a laptop's step two seconds."""
    import torch
    from safetensors.torch import save_file

    tied = set(model.all_tied_weights_keys)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(model.state_dict().items())
               if name not in tied}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    model.config.architectures = [type(model).__name__]
    model.config.dtype = torch.float32
    model.config.save_pretrained(directory)
    if model.can_generate():
        model.generation_config.save_pretrained(directory)
