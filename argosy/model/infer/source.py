"""Checkpoint that a post-training step starts from, with how its answers are decoded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argosy.model.infer.decode import Decoding
from argosy.model.weights.chat import check_template, end_tokens
from argosy.model.weights.checkpoint import open_final
from argosy.model.weights.load import OUTPUT_LAYER, load_model
from argosy.model.weights.pretrained import load_config, load_tokenizer


@dataclass(frozen=True)
class Source:
    """A checkpoint that a post-training step starts from.

    Attributes:
        path: the directory that `from_pretrained` loads.
        tokenizer: its tokenizer, with a chat template.
        tokens: tokens of the model's training, over all its stages.
        context: its longest input in tokens.
        stop_ids: ids that end an answer.
        device: torch.device on which its models are put.
        quantization: arguments of from_pretrained that load its weights in less bits."""

    path: Path
    tokenizer: Any
    tokens: int
    context: int
    stop_ids: list[int]
    device: Any
    quantization: Mapping[str, Any] = field(default_factory=dict)

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

    def load(self, kind: str, new: str = "", **fields: Any) -> Any:
        """Load the weights into the class of transformers that is named `kind`, float32 or quantized, on the device.

        `new`: pattern of the tensors that the checkpoint may lack: of a new head."""
        more = {**self.quantization, **fields}
        return load_model(self.path, kind, new=new, unused=OUTPUT_LAYER if new else "", **more).to(self.device)


def open_source(field: str, directory: str, device: Any) -> Source:
    """Open the final export of the training step in `directory`, the value of the config's `field`.

    Raises InputError: no finished training step is there, or its tokenizer has no usable chat template."""
    found = open_final(field, directory)
    tokenizer, context = load_tokenizer(found.path), load_config(found.path).max_position_embeddings
    check_template(tokenizer)
    return Source(found.path, tokenizer, found.tokens, context, end_tokens(tokenizer), device)
