"""Architecture of a new model: its shapes; its experts, how tokens are routed to them, the weights of their losses."""

from typing import Annotated, Any

from pydantic import Field

from argosy.core.config.schema import ADDED, Config
from argosy.model.train.sizing.architecture import MIXTURES, expert_fields

PositiveInt = Annotated[int, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]


class ExpertsConfig(Config):
    """Experts in the place of a block's feed-forward layer (Shazeer et al. 2017); every token is sent to some.

    What transformers calls these fields, by type of model, is in argosy/model/train/sizing/architecture.py."""

    count: Annotated[int, Field(ge=2)]
    """Experts of a block."""
    per_token: PositiveInt = 2
    """Experts that a token is sent to; none has a capacity, so that no token is dropped."""
    intermediate_size: Annotated[int, Field(ge=0)] = 0
    """Width of an expert; 0 is the model's `intermediate_size`."""
    dense_layers: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Blocks (0 is the first) without experts, of the model's `intermediate_size`; of qwen3_moe alone."""
    normalized: bool = True
    """The weights of a token's experts sum to 1; mixtral knows no other way."""
    balance_loss: Weight = 0.001
    """Weight of the balance loss (Fedus et al. 2021), which keeps experts from being left out."""
    router_z_loss: Weight = 0.0
    """Weight of the routers' log(Z)^2 (Zoph et al. 2022), which keeps their logits from drifting."""

    def problem(self, kind: str, layers: int) -> str:
        """Say what does not go together with a model of the model_type `kind` and so many `layers`; "" where all does.
        """
        if kind not in MIXTURES:
            return (f"experts are of model_type {' or '.join(MIXTURES)}, and this is {kind}: change the one, or leave "
                    "the other out")
        if self.per_token > self.count:
            return (f"experts.per_token={self.per_token} exceeds experts.count={self.count}, allowed: 1 to "
                    f"{self.count}")
        if kind != "qwen3_moe" and (self.dense_layers or not self.normalized):
            name = "dense_layers" if self.dense_layers else "normalized=false"
            return f"experts.{name} is of model_type qwen3_moe, and this is {kind}: leave it out"
        wrong = [each for each in self.dense_layers if each >= layers]
        if wrong or len(set(self.dense_layers)) == layers:
            return (f"experts.dense_layers={list(self.dense_layers)} of num_hidden_layers={layers}, allowed: some of 0 "
                    f"to {layers - 1}, not all")
        return ""


class ModelConfig(Config):
    """A Llama-type model of transformers; the vocabulary comes from the tokenizer."""

    model_type: str = "llama"
    """An architecture of `AutoModelForCausalLM` with these fields (llama, qwen3, mistral; with experts mixtral,
    qwen3_moe)."""
    hidden_size: PositiveInt = 128
    """Width of the residual stream."""
    intermediate_size: PositiveInt = 352
    """Width of the feed-forward layers."""
    num_hidden_layers: PositiveInt = 6
    """Number of blocks."""
    num_attention_heads: PositiveInt = 4
    """Heads of queries."""
    num_key_value_heads: PositiveInt = 4
    """Heads of keys and values; a divisor of the heads of queries."""
    max_position_embeddings: PositiveInt = 128
    """Longest context, in tokens."""
    rope_theta: Annotated[float, Field(gt=0)] = 10_000.0
    """Base of the rotary frequencies."""
    tie_word_embeddings: bool = True
    """The output layer shares the input embedding's weights."""
    initializer_range: Annotated[float, Field(gt=0)] = 0.02
    """Standard deviation of the initial weights."""
    experts: Annotated[ExpertsConfig | None, ADDED] = None
    """Experts that tokens are routed to, such as `{count: 8, per_token: 2}`; null for a dense model."""

    @property
    def shapes(self) -> dict[str, Any]:
        """Return the fields by the names that transformers has for them, but for `rope_theta`."""
        fields = self.model_dump(exclude={"rope_theta", "experts"})
        experts = self.experts.model_dump() if self.experts else None
        return fields | expert_fields(self.model_type, self.intermediate_size, experts)

    def check_fields(self) -> None:
        if self.experts is None and self.model_type in MIXTURES:
            raise ValueError(f"model_type={self.model_type} needs experts, such as experts={{count: 8, per_token: 2}}; "
                             "a dense one is qwen3")
        if self.experts and (problem := self.experts.problem(self.model_type, self.num_hidden_layers)):
            raise ValueError(problem)
        if self.hidden_size % (2 * self.num_attention_heads):
            raise ValueError(f"hidden_size={self.hidden_size} must be num_attention_heads={self.num_attention_heads} "
                             "times an even number")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(f"num_key_value_heads={self.num_key_value_heads} does not divide "
                             f"num_attention_heads={self.num_attention_heads}")
