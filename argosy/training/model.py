"""Models: built from a config, or loaded from an exported checkpoint and given a longer context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from argosy.errors import InputError
from argosy.training.config import ModelConfig
from argosy.training.linear_cross_entropy import linear_cross_entropy

EAGER_LENGTH = 256  # on a CPU, plain attention is faster than torch's fused one up to about this length


def build_model(config: ModelConfig, vocab_size: int, special_ids: dict[str, int | None]) -> Any:
    """A randomly initialised model, float32.

    Args:
        special_ids: bos_token_id, eos_token_id, pad_token_id of the tokenizer.

    Raises:
        InputError: transformers has no causal model of this type.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    fields = config.model_dump(exclude={"model_type", "rope_theta"})
    fields["rope_parameters"] = {"rope_type": "default", "rope_theta": config.rope_theta}
    fields["head_dim"] = config.hidden_size // config.num_attention_heads
    try:
        architecture = AutoConfig.for_model(config.model_type, vocab_size=vocab_size, **fields, **special_ids)
        return AutoModelForCausalLM.from_config(architecture, dtype=torch.float32)
    except (ValueError, KeyError) as error:
        raise InputError(f"model.model_type={config.model_type!r} is not a causal model of transformers: {error}; "
                         "try llama, qwen3 or mistral") from None


def load_model(path: Path) -> Any:
    """The exported checkpoint in `path`, float32."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)


def lengthen(model: Any, max_position_embeddings: int, rope_theta: float) -> Any:
    """The same weights with a longer context and another RoPE base (Xiong et al. 2023, "Effective long-context
    scaling"): a larger base slows the rotations, so that far positions stay within angles that were trained."""
    from transformers import AutoModelForCausalLM

    config = type(model.config).from_dict(model.config.to_dict())
    config.max_position_embeddings = max_position_embeddings
    config.rope_parameters = {**config.rope_parameters, "rope_theta": rope_theta}
    longer = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    longer.load_state_dict(model.state_dict())
    return longer


class LossModule(nn.Module):
    """A causal model whose forward gives losses instead of logits: one pass, nothing of the vocabulary's size kept.

    Args:
        model: a transformers causal model with a decoder and a linear output layer without bias.
        channels: number of channels that losses are summed by.
        dtype: of matrix products.
        z_loss: weight of log(Z)^2.
        sequence_length: decides the attention implementation on a CPU.
    """

    def __init__(self, model: Any, channels: int, dtype: torch.dtype, z_loss: float, sequence_length: int) -> None:
        super().__init__()
        head = model.get_output_embeddings()
        if head is None or getattr(head, "bias", None) is not None:
            raise InputError(f"a {model.config.model_type} model has no linear output layer without bias: "
                             "choose model_type llama, qwen3 or mistral")
        self.model = model
        self.channels = channels
        self._dtype, self._z_loss = dtype, z_loss
        on_cpu = next(model.parameters()).device.type == "cpu"
        model.set_attn_implementation("eager" if on_cpu and sequence_length <= EAGER_LENGTH else "sdpa")

    def forward(
        self, inputs: Tensor, targets: Tensor, channels: Tensor, documents: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Summed loss in nats (differentiable), and by channel (channels,), float64, detached.

        Args:
            inputs, targets, channels: (samples, length), int64; a target of IGNORED costs nothing.
            documents: (samples, length); where given, attention stays within equal numbers.
        """
        loss, nats = self.token_losses(inputs, targets, documents)
        index = torch.arange(self.channels, device=nats.device).unsqueeze(1)
        return loss, (nats.double() * (channels.reshape(1, -1) == index)).sum(dim=1)

    def token_losses(self, inputs: Tensor, targets: Tensor, documents: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Summed loss, and the nats of each token, (samples * length,), detached."""
        mask = None if documents is None else self._mask(documents)
        device = inputs.device.type
        with torch.autocast(device, dtype=self._dtype, enabled=self._dtype != torch.float32):
            hidden = self.model.get_decoder()(input_ids=inputs, attention_mask=mask, use_cache=False).last_hidden_state
        weight = self.model.get_output_embeddings().weight
        return linear_cross_entropy(hidden.flatten(0, 1), weight, targets.flatten(), self._z_loss, self._dtype)

    def _mask(self, documents: Tensor) -> Tensor:
        """Additive (samples, 1, length, length) mask: causal and within a document."""
        length = documents.shape[1]
        allowed = documents.unsqueeze(2) == documents.unsqueeze(1)
        allowed &= torch.ones(length, length, dtype=torch.bool, device=documents.device).tril()
        lowest = torch.finfo(self._dtype).min
        mask = torch.zeros(allowed.shape, dtype=self._dtype, device=documents.device)
        return mask.masked_fill_(~allowed, lowest).unsqueeze(1)
