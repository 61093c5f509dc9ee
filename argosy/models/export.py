"""Checkpoints of training steps: their export, with equal bytes for equal weights, and the `final` one of a step."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.config.schema import Config
from argosy.errors import InputError
from argosy.models.chat import check_template, end_tokens
from argosy.models.generate import Decoding
from argosy.step.contract import StepContext
from argosy.store.files import publish, read_json, temporary_of, write_json
from argosy.store.step_files import given_directory, read_outputs


class Export(Config):
    """A checkpoint that `from_pretrained` loads."""

    name: str
    path: str
    """Directory, relative to the step's."""
    step: int
    """Optimizer step of the phase."""
    tokens: int
    """Tokens of training since pretraining began."""


def open_final(field: str, directory: str) -> tuple[Path, int]:
    """Return the directory of the `final` export of the training step in `directory`, and its tokens of training.

    Args:
        field: name of the config's field that holds `directory`.

    Raises:
        InputError: there is no finished training step.
    """
    root = given_directory(field, directory, "training")
    outputs = read_outputs(root, field)
    if "final" not in outputs:
        raise InputError(f"{field}={directory} is not a training step: its outputs name no `final` checkpoint")
    # A relative path is kept relative: Trainer and TRL may write it down.
    path = Path(os.path.normpath(root / outputs["final"]))
    return path, int(read_json(path / "argosy.json")["tokens"])


@dataclass(frozen=True)
class Exporter:
    """Writer of a phase's checkpoints.

    Attributes:
        stage: the step's name, such as "pretrain".
        tokenizer: saved into each checkpoint.
        tokens_before: tokens of the model's training in the phases before.
        chat: whether the checkpoint answers in the chat format.
    """

    context: StepContext
    stage: str
    tokenizer: Any
    tokens_before: int
    chat: bool = False

    def write(self, name: str, model: Any, step: int, tokens: int) -> None:
        """Write `checkpoints/<name>`, whole or not at all, and register it; of several processes, rank 0 does.

        Args:
            tokens: tokens of the phase.
        """
        if self.context.rank:
            return
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
        """Return the outputs' record of a checkpoint."""
        return Export(name=name, path=self.path(name), step=step, tokens=self.tokens_before + tokens)

    @staticmethod
    def path(name: str) -> str:
        """Return the path of a checkpoint below the step's directory."""
        return f"checkpoints/{name}"


def save_weights(model: Any, directory: Path) -> None:
    """Write the files of `model.save_pretrained`, the weights as one. Its own way imports DeepSpeed, to unwrap a model
    that is never wrapped here, which costs a laptop's step two seconds."""
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


@dataclass(frozen=True)
class Source:
    """A checkpoint that a post-training step starts from.

    Attributes:
        path: the directory that `from_pretrained` loads.
        tokenizer: its tokenizer; the chat template marks the assistant's tokens.
        tokens: tokens of the model's training, over all its stages.
        context: its longest input in tokens.
        stop_ids: ids that end an answer.
        device: torch.device on which its models are put.
    """

    path: Path
    tokenizer: Any
    tokens: int
    context: int
    stop_ids: list[int]
    device: Any

    @property
    def pad_id(self) -> int:
        """Return the tokenizer's padding token."""
        return int(self.tokenizer.pad_token_id)

    def decoding(self, max_new_tokens: int, temperature: float = 0.0, seed: int = 0) -> Decoding:
        """Return how answers of this checkpoint are generated; greedy at temperature 0."""
        return Decoding(self.stop_ids, self.pad_id, max_new_tokens, temperature, seed)

    def causal_model(self) -> Any:
        """Load the language model, on the device, with generation ending at `stop_ids`."""
        model = self.load("AutoModelForCausalLM")
        model.generation_config.eos_token_id = self.stop_ids
        model.generation_config.pad_token_id = self.pad_id
        return model

    def load(self, kind: str, **fields: Any) -> Any:
        """Load the weights into the class of transformers that is named `kind`, float32, on the device."""
        import transformers

        model = getattr(transformers, kind).from_pretrained(self.path, dtype="float32", **fields)
        return model.to(self.device)


def open_source(field: str, directory: str, device: Any) -> Source:
    """Open the final export of the training step in `directory`, the value of the config's `field`.

    Raises:
        InputError: no finished training step is there, or its tokenizer has no usable chat template.
    """
    path, tokens = open_final(field, directory)
    from transformers import AutoConfig, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path)
    check_template(tokenizer)
    context = AutoConfig.from_pretrained(path).max_position_embeddings
    return Source(path, tokenizer, tokens, context, end_tokens(tokenizer), device)
