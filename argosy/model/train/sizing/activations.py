"""Activations that a block keeps for its backward, tensor by tensor.

Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models", counts them for GPT; here they
are of SwiGLU, grouped queries, RMSNorm and experts too, and of transformers' own operations, which keep more."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from argosy.model.train.sizing.job import Job, Layout


@dataclass(frozen=True)
class Kept:
    """A tensor that a block keeps."""

    name: str
    bytes: float
    """Bytes per token."""
    split: Literal["tensor", "sequence"]
    """Parallelism that divides it: tensor parallelism, or only that of the sequence beside it."""
    scores: bool = False
    """Whether it grows with the square of the sequence, and selective recomputation makes it anew."""


def norm(job: Job, readers: int) -> Iterator[Kept]:
    """Yield what a norm keeps with its output, which `readers` matrices read."""
    hidden, size = job.model.hidden_size, job.bytes
    plain = job.kernels == "transformers"
    if plain and job.model.gated:  # RMSNorm in float32, by single operations
        yield Kept("norm's input", 4 * hidden, "sequence")
        yield Kept("norm's quotient", size.residual * hidden + 4, "sequence")
    else:
        yield Kept("norm's input", size.residual * hidden, "sequence")
    copies = readers if plain and size.casts else 1  # autocast casts the input for each matrix anew
    yield Kept("matrices' input", copies * size.product * hidden, "sequence")


def attention(job: Job) -> Iterator[Kept]:
    """Yield what attention keeps between its first matrices and its last one's input, that one included."""
    model, a = job.model, job.bytes.product
    plain = job.kernels == "transformers"
    if model.qk_norm:
        width = model.query_size + model.kv_size
        yield Kept("norms of queries and keys", (4 + a) * width if plain else a * width, "tensor")
    repeated = plain and (job.document_mask or job.attention == "plain")  # keys and values once for each query head
    kv = model.query_size if repeated else model.kv_size
    yield Kept("queries, keys, values", a * (model.query_size + 2 * kv), "tensor")
    if plain and not model.gated and job.attention == "fused":  # v is a part of one tensor; the output is laid out anew
        yield Kept("queries, keys and values in one, output", a * 3 * model.query_size, "tensor")
    yield Kept("attention's output", a * model.query_size, "tensor")
    yield from _scores(job)


def _scores(job: Job) -> Iterator[Kept]:
    model, a = job.model, job.bytes.product
    if job.attention == "fused":
        yield Kept("logarithms of sums", 4 * model.heads, "tensor")
        return
    square = model.heads * job.sequence_length
    exact = 4 if job.kernels == "transformers" else a  # transformers' softmax is float32
    yield Kept("softmax", (exact + (a if exact != a else 0)) * square, "tensor", scores=True)
    if model.attention_dropout:
        yield Kept("dropout of scores", (1 + a) * square, "tensor", scores=True)


def mlp(job: Job) -> Iterator[Kept]:
    """Yield what a dense MLP keeps after its norm."""
    a, inner = job.bytes.product, job.model.intermediate_size
    tensors = 2 if not job.model.gated else 4 if job.kernels == "transformers" else 3
    yield Kept("MLP", tensors * a * inner, "tensor")


def experts(job: Job) -> Iterator[Kept]:
    """Yield what a block's experts keep after its norm, each token sent to `experts_per_token` of them."""
    model, size = job.model, job.bytes
    chosen, hidden, inner = model.experts_per_token, model.hidden_size, model.expert_size
    plain = job.kernels == "transformers"
    a = size.residual if plain else size.product  # autocast leaves the experts' products as they are
    yield Kept("router", 4 * model.experts + 36 * chosen, "sequence")
    yield Kept("experts' input and output", 2 * a * hidden * chosen, "sequence")
    yield Kept("experts", (4 if plain else 3) * a * inner * chosen, "sequence")


def block(job: Job, *, sparse: bool = False) -> list[Kept]:
    """List what a block keeps where nothing is made anew."""
    model = job.model
    kept = [*norm(job, 3 if model.gated else 1), *attention(job)]
    second = list(norm(job, 1 if sparse or not model.gated else 2))
    if model.parallel_residual and job.kernels == "transformers":
        second = second[-1:]  # one tensor is both norms' input
    kept += [*second, *(experts(job) if sparse else mlp(job))]
    if model.hidden_dropout:
        kept.append(Kept("dropout", 2 * model.hidden_size, "sequence"))
    return kept


def kept_by(kept: list[Kept], layout: Layout) -> float:
    """Return the bytes of a token that one GPU keeps of a block which is not made anew as a whole."""
    total = 0.0
    for each in kept:
        if not (each.scores and layout.recompute == "selective"):
            divided = each.split == "tensor" or layout.sequence
            total += each.bytes / (layout.tensor if divided else 1)
    return total


def blocks_on(job: Job, layout: Layout) -> tuple[float, float]:
    """Return the dense and the sparse blocks of a pipeline stage; the fullest one where they do not divide."""
    model = job.model
    stage = -(-model.layers // layout.pipeline)
    sparse = model.sparse_layers * stage / model.layers
    return stage - sparse, sparse


def block_bytes(job: Job, layout: Layout) -> float:
    """Return the bytes of a token that one block keeps while its backward runs, the larger kind of them."""
    kinds = [block(job, sparse=sparse) for sparse, count in zip((False, True), blocks_on(job, layout), strict=True)
             if count]
    return max(kept_by(kept, layout) for kept in kinds)


def stored_bytes(job: Job, layout: Layout) -> float:
    """Return the bytes of a token that all blocks of a GPU keep from the forward to the backward.

    With full recomputation these are the blocks' inputs. The first stage of a pipeline holds as many micro-batches as
    there are stages (1F1B, Narayanan et al. 2021)."""
    dense, sparse = blocks_on(job, layout)
    waiting = min(layout.pipeline, layout.accumulation(job))
    if layout.recompute == "full":
        divided = layout.tensor if layout.sequence else 1
        return waiting * (dense + sparse) * job.bytes.residual * job.model.hidden_size / divided
    total = dense * kept_by(block(job), layout) if dense else 0.0
    if sparse:
        total += sparse * kept_by(block(job, sparse=True), layout)
    return waiting * total
