"""Memory that answering takes: weights and the cache of keys and values on each GPU, by precision of the weights
and tensor parallelism; how many sequences fit, and how fast they can come at best.

A step of decoding reads all weights (of the experts those of its tokens) and all of the cache, so that the memory's
bandwidth bounds it (Pope et al. 2022, "Efficiently Scaling Transformer Inference"). Kept is what vLLM keeps: 10 % of
the GPU free, bfloat16 keys and values of each layer, and the activations of 2,048 tokens that are read at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

from argosy.corpus.text.display import columns
from argosy.model.train.sizing.advice import gigabytes
from argosy.model.train.sizing.architecture import Architecture
from argosy.model.train.sizing.gpus import Gpu
from argosy.model.train.sizing.memory import CUDA_CONTEXT

FILLED, READ, HALF = 0.9, 2048, 2  # vLLM's gpu_memory_utilization; tokens of a prefill; bytes of bfloat16
GROUP, SCALE = 128, 2.5  # weights of 4 bits: inputs of a group, bytes of its scale and zero
WEIGHTS = {"bfloat16": 2.0, "int8, fp8": 1.0, "int4": 0.5 + SCALE / GROUP}  # bytes of a weight in the blocks' products
WIDTHS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Serving:
    """One GPU's part of answering; bytes.

    Attributes:
        sequences: that fit at a time; 0: not even one does.
        tokens_a_second: of all sequences together, at best."""

    weights_as: str
    gpus: int
    weights: float
    sequence: float
    sequences: int
    tokens_a_second: float


def weight_bytes(model: Architecture, size: float, gpus: int, experts: float = 1.0) -> float:
    """Return the bytes of a GPU's weights: products in the blocks of `size` bytes a weight, the rest of bfloat16.

    Embedding, output layer and matrices are divided over `gpus`, vectors and routers are not. `experts`: the share of
    them that is counted."""
    total = 0.0
    for weight in model.weights():
        inside = weight.is_matrix and weight.part in ("attention", "mlp", "experts")
        divided = weight.is_matrix and weight.part != "router"
        share = experts if weight.part == "experts" else 1.0
        total += weight.size * (size if inside else HALF) * share / (gpus if divided else 1)
    return total


def cache_bytes(model: Architecture, tokens: int, gpus: int = 1) -> int:
    """Return the bytes of the keys and values of a sequence on a GPU, whose heads are divided as far as there are."""
    heads = -(-model.kv_heads // gpus)
    return 2 * HALF * model.layers * heads * model.head_dim * tokens


def serving(model: Architecture, gpu: Gpu, tokens: int, most: int) -> Iterator[Serving]:
    """Yield what sequences of `tokens` take, for each precision over each number of GPUs up to `most` that divides the
    heads."""
    for name, size in WEIGHTS.items():
        for gpus in (width for width in WIDTHS if width <= most and not model.heads % width
                     and 0 in (model.kv_heads % width, width % model.kv_heads)):
            weights, one = weight_bytes(model, size, gpus), cache_bytes(model, tokens, gpus)
            inner = model.expert_size * model.experts_per_token or model.intermediate_size
            read = HALF * READ * (2 * model.hidden_size + (2 * model.query_size + 3 * inner) / gpus)
            free = FILLED * gpu.memory - CUDA_CONTEXT - read - weights
            fit = max(0, int(free // (one + 4 * model.vocab_size / gpus)))  # with its float32 logits
            used = min(1.0, fit * model.experts_per_token / max(1, model.experts))
            rate = fit * gpu.bandwidth / (weight_bytes(model, size, gpus, used) + fit * one) if fit else 0.0
            yield Serving(name, gpus, weights, one, fit, rate)


def serving_in_words(model: Architecture, gpu: Gpu, tokens: int, most: int) -> str:
    """Return the table for a person."""
    rows = [("WEIGHTS", "GPUS", "GB OF WEIGHTS", "GB A SEQUENCE", "SEQUENCES", "TOKENS/S")]
    for each in serving(model, gpu, tokens, most):
        speed = f"{each.tokens_a_second:,.0f}" if each.sequences else "too large"
        rows.append((each.weights_as, str(each.gpus), gigabytes(each.weights), gigabytes(each.sequence),
                     f"{each.sequences:,}", speed))
    return (f"answering with {model.kind}, {tokens:,} tokens of prompt and answer, on {gpu.name} of "
            f"{gigabytes(gpu.memory)} GB: of each GPU\n{columns(rows, right=(1, 2, 3, 4, 5))}\n"
            "SEQUENCES fit at a time; TOKENS/S of all of them at their full length are at most this, by the "
            "memory's bandwidth")
