"""A causal transformer by its shapes: every weight it has, read from a config of Hugging Face or of the pipeline."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from argosy.core.config.explain import likely
from argosy.core.errors import InputError

Part = Literal["embedding", "head", "attention", "mlp", "experts", "router", "norm"]

DEFAULTS: Mapping[str, Mapping[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
MIXTURES = ("mixtral", "qwen3_moe")  # types with experts
_UNSET = {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}
_DERIVED = {"num_key_value_heads", "head_dim"}  # where they are null
_COUNTS = {*_DERIVED, "moe_intermediate_size", "num_experts", "num_experts_per_tok", "decoder_sparse_step"}


@dataclass(frozen=True)
class Weight:
    """Tensors of one shape: `count` of them in the whole model; a vector has one column."""

    part: Part
    rows: int
    columns: int
    count: int

    @property
    def size(self) -> int:
        return self.rows * self.columns * self.count

    @property
    def is_matrix(self) -> bool:
        """Whether it multiplies, and is no vector of a norm or a bias."""
        return self.columns > 1


@dataclass(frozen=True)
class Architecture:
    """The shapes of a causal transformer; a dense model has no experts and no sparse layers."""

    kind: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    tied: bool
    attention_bias: bool = False
    mlp_bias: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_size: int = 0
    """Intermediate size of an expert."""
    sparse_layers: int = 0
    """Blocks whose MLP is of experts."""
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0
    parallel_residual: bool = False
    positions: int = field(default=0, compare=False)
    """Tokens that it is made for; 0 where the config does not say."""

    @property
    def gated(self) -> bool:
        """Whether the MLP is a SwiGLU of three matrices, under RMSNorm; else two matrices under LayerNorm."""
        return self.kind != "gpt_neox"

    @property
    def qk_norm(self) -> bool:
        """Whether queries and keys are normalised by head."""
        return self.kind in ("qwen3", "qwen3_moe")

    @property
    def query_size(self) -> int:
        """Width of all heads of queries."""
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all heads of keys, and of values."""
        return self.kv_heads * self.head_dim

    @property
    def shapes(self) -> dict[str, Any]:
        """Return the fields of config.json that decide over how many processes it can be divided."""
        return {"num_hidden_layers": self.layers, "num_attention_heads": self.heads, "num_experts": self.experts,
                "num_key_value_heads": self.kv_heads, "intermediate_size": self.intermediate_size,
                "hidden_dropout": self.hidden_dropout, "attention_dropout": self.attention_dropout}

    def weights(self) -> Iterator[Weight]:
        """Yield every weight of the model; a tied output layer is the embedding and no weight of its own."""
        hidden, vocab = self.hidden_size, self.vocab_size
        yield Weight("embedding", vocab, hidden, 1)
        if not self.tied:
            yield Weight("head", vocab, hidden, 1)
        yield from self._attention()
        yield from self._mlp()
        vectors = 1 if self.gated else 2  # a LayerNorm has a bias too
        yield Weight("norm", hidden, 1, vectors * (2 * self.layers + 1))
        if self.qk_norm:
            yield Weight("norm", self.head_dim, 1, 2 * self.layers)

    def _attention(self) -> Iterator[Weight]:
        hidden, layers, query, kv = self.hidden_size, self.layers, self.query_size, self.kv_size
        inputs = [(query, 1), (kv, 2)] if self.gated else [(3 * hidden, 1)]
        for rows, count in inputs:
            yield Weight("attention", rows, hidden, count * layers)
            if self.attention_bias:
                yield Weight("attention", rows, 1, count * layers)
        yield Weight("attention", hidden, query, layers)
        if self.attention_bias and self.kind != "qwen2":  # whose output layer has none
            yield Weight("attention", hidden, 1, layers)

    def _mlp(self) -> Iterator[Weight]:
        hidden, inner, dense = self.hidden_size, self.intermediate_size, self.layers - self.sparse_layers
        inputs = 2 if self.gated else 1
        if dense:
            yield Weight("mlp", inner, hidden, inputs * dense)
            yield Weight("mlp", hidden, inner, dense)
        if dense and self.mlp_bias:
            yield Weight("mlp", inner, 1, inputs * dense)
            yield Weight("mlp", hidden, 1, dense)
        if self.sparse_layers:
            yield Weight("router", self.experts, hidden, self.sparse_layers)
            yield Weight("experts", 2 * self.expert_size, hidden, self.experts * self.sparse_layers)
            yield Weight("experts", hidden, self.expert_size, self.experts * self.sparse_layers)

    def parameters(self, *parts: Part) -> int:
        """Return the number of parameters, of these parts or of all; it is exact."""
        return sum(weight.size for weight in self.weights() if not parts or weight.part in parts)

    @property
    def active_parameters(self) -> int:
        """Parameters that a token meets: all but those of the experts that it is not sent to."""
        return self.parameters() - self.parameters("experts") + self._active_experts

    @property
    def _active_experts(self) -> int:
        return self.parameters("experts") * self.experts_per_token // max(1, self.experts)

    @property
    def multiplied(self) -> int:
        """Parameters that a token is multiplied by: active matrices, the output layer's also where it is tied."""
        inner = sum(w.size for w in self.weights() if w.is_matrix and w.part in ("attention", "mlp", "router"))
        return inner + self._active_experts + self.vocab_size * self.hidden_size


def read_architecture(config: Mapping[str, Any], where: str = "model") -> Architecture:
    """Read a config with the names of transformers, such as that of `config.json`.

    `where`: what an error calls it. Raises InputError: the type is not known, or a value is not what it must be."""
    kind = str(config.get("model_type", ""))
    if kind not in DEFAULTS:
        raise InputError(f"{where}.model_type is {kind!r}, allowed: {', '.join(sorted(DEFAULTS))}; "
                         f"{likely(kind, DEFAULTS)}")
    if "num_local_experts" in config:  # another name for it, in files of either type
        config = {**config, "num_experts": config["num_local_experts"]}
    given = {name: value for name, value in config.items() if value is not None or name not in _UNSET}
    values = {**DEFAULTS[kind], **given}
    for name in _UNSET:
        if isinstance(values[name], bool) or not isinstance(values[name], int) or values[name] < 1:
            raise InputError(f"{where}.{name} is {values[name]!r}, allowed: a whole number from 1 on")
    for name in sorted(_COUNTS & values.keys()):
        number = 0 if name in _DERIVED and values[name] is None else values[name]
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InputError(f"{where}.{name} is {number!r}, allowed: a whole number")
    heads = values["num_attention_heads"]
    kv_heads = heads if kind == "gpt_neox" else values["num_key_value_heads"] or heads
    if heads % kv_heads:
        raise InputError(f"{where}.num_key_value_heads is {kv_heads}, allowed: a divisor of {heads}, the "
                         "num_attention_heads")
    # Qwen2 has no such field, and GPT-NeoX computes it.
    own = None if kind in ("qwen2", "gpt_neox") else values["head_dim"]
    return Architecture(
        kind, values["vocab_size"], values["hidden_size"], values["intermediate_size"], values["num_hidden_layers"],
        heads, kv_heads, own or values["hidden_size"] // heads, bool(values["tie_word_embeddings"]),
        attention_bias=kind == "qwen2" or (bool(values["attention_bias"]) and kind not in ("mistral", "mixtral")),
        mlp_bias=kind == "gpt_neox" or (kind == "llama" and bool(values["mlp_bias"])), **_experts(kind, values),
        hidden_dropout=values.get("hidden_dropout") or 0.0, attention_dropout=values.get("attention_dropout") or 0.0,
        parallel_residual=bool(values.get("use_parallel_residual")),
        positions=values.get("max_position_embeddings") or 0)


def _experts(kind: str, values: Mapping[str, Any]) -> dict[str, int]:
    if kind == "mixtral":
        return {"experts": values["num_experts"], "experts_per_token": values["num_experts_per_tok"],
                "expert_size": values["intermediate_size"], "sparse_layers": values["num_hidden_layers"]}
    if kind != "qwen3_moe":
        return {}
    dense = values["mlp_only_layers"] or ()
    step, layers, experts = values["decoder_sparse_step"] or 1, values["num_hidden_layers"], values["num_experts"]
    sparse = sum(1 for layer in range(layers) if layer not in dense and (layer + 1) % step == 0) if experts else 0
    return {"experts": experts, "experts_per_token": values["num_experts_per_tok"],
            "expert_size": values["moe_intermediate_size"], "sparse_layers": sparse}


def of_pipeline(model: Mapping[str, Any], vocab_size: int) -> Architecture:
    """Read the fields of `pretrain.model` (argosy/model/train/config/), which decide the heads' width.

    `vocab_size`: of the tokenizer. Raises InputError: the type of model is not known here."""
    head = model["hidden_size"] // model["num_attention_heads"]
    sizes = expert_fields(model["model_type"], model["intermediate_size"], model.get("experts"))
    return read_architecture({**model, **sizes, "vocab_size": vocab_size, "head_dim": head}, "pretrain.model")


def expert_fields(kind: str, intermediate_size: int, experts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what transformers calls `intermediate_size` and the `experts` of `pretrain.model`, which may be None."""
    if not experts:
        return {"intermediate_size": intermediate_size}
    fields = {"num_experts_per_tok": experts["per_token"], "router_aux_loss_coef": experts["balance_loss"],
              "router_z_loss_coef": experts["router_z_loss"]}
    own = experts["intermediate_size"] or intermediate_size
    if kind == "mixtral":
        return {**fields, "intermediate_size": own, "num_local_experts": experts["count"]}
    return {**fields, "intermediate_size": intermediate_size, "moe_intermediate_size": own,
            "num_experts": experts["count"], "norm_topk_prob": experts["normalized"],
            "mlp_only_layers": list(experts["dense_layers"])}


def open_architecture(directory: Path) -> Architecture:
    """Read `config.json` of a model's directory. Raises InputError: there is none, or it cannot be read."""
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): name a model's directory") from None
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}") from None
    if not isinstance(config, dict):
        raise InputError(f"{path} holds no mapping: name a directory that transformers loads")
    return read_architecture(config, str(path))
