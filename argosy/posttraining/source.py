"""The checkpoint that a post-training step starts from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.posttraining.chat import check_template, stop_token_ids
from argosy.posttraining.generation import Decoding
from argosy.training.final import open_final


@dataclass(frozen=True)
class Source:
    """A checkpoint and what it knows.

    Attributes:
        path: the directory that `from_pretrained` loads.
        tokenizer: its tokenizer; its chat template marks the assistant's tokens.
        tokens: how many tokens the model has been trained on, over all its stages.
        context: its longest input in tokens.
        stop_ids: ids that end an answer.
    """

    path: Path
    tokenizer: Any
    tokens: int
    context: int
    stop_ids: list[int]

    @property
    def pad_id(self) -> int:
        """The tokenizer's padding token."""
        return int(self.tokenizer.pad_token_id)

    def decoding(self, max_new_tokens: int, temperature: float = 0.0, seed: int = 0) -> Decoding:
        """How this checkpoint's answers are generated; greedy at temperature 0."""
        return Decoding(self.stop_ids, self.pad_id, max_new_tokens, temperature, seed)

    def causal_model(self) -> Any:
        """The language model, float32, with generation ending at `stop_ids`."""
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(self.path, dtype="float32")
        model.generation_config.eos_token_id = self.stop_ids
        model.generation_config.pad_token_id = self.pad_id
        return model


def open_source(field: str, directory: str) -> Source:
    """The final export of the training step in `directory`, the value of the config's `field`.

    Raises:
        InputError: no finished training step is there, or its tokenizer has no usable chat template.
    """
    path, tokens = open_final(field, directory)
    from transformers import AutoConfig, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path)
    check_template(tokenizer)
    context = AutoConfig.from_pretrained(path).max_position_embeddings
    return Source(path, tokenizer, tokens, context, stop_token_ids(tokenizer))
