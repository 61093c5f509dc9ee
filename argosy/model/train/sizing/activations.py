"""Activations that a block keeps for its backward, tensor by tensor.

Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models", counts them for GPT; here they
are of SwiGLU, grouped queries, RMSNorm and experts too, and of transformers' own operations, which keep more."""

from collections.abc import Iterator
from dataclasses import dataclass

from argosy.model.train.sizing.job import FLOAT, Job, Layout


@dataclass(frozen=True)
class Kept:
    """A tensor that a block keeps."""

    name: str
    bytes: float
    """Bytes per token."""
    divided: bool = False
    """Whether tensor parallelism divides it: by heads or width, or, of norms and experts, by tokens."""


def norm(job: Job, readers: int) -> Iterator[Kept]:
    """Yield what a norm keeps with its output, which `readers` matrices read: those that are cut, of all tokens."""
    hidden = job.model.hidden_size
    yield Kept("norm's input", FLOAT * hidden, divided=True)
    if job.model.gated:  # RMSNorm, by single operations
        yield Kept("norm's quotient", FLOAT * hidden + FLOAT, divided=True)
    copies = readers if job.casts else 1  # autocast casts the input for each matrix anew
    yield Kept("matrices' input", copies * job.product * hidden)


def attention(job: Job) -> Iterator[Kept]:
    """Yield what attention keeps between its first matrices and its last one's input, that one included."""
    model, a = job.model, job.product
    if model.qk_norm:
        yield Kept("norms of queries and keys", (FLOAT + a) * (model.query_size + model.kv_size), divided=True)
    repeated = job.document_mask or job.attention == "plain"  # keys and values once for each query head
    kv = model.query_size if repeated else model.kv_size
    yield Kept("queries, keys, values", a * (model.query_size + 2 * kv), divided=True)
    if not model.gated and job.attention == "fused":  # v is a part of one tensor; the output is laid out anew
        yield Kept("queries, keys and values in one, output", a * 3 * model.query_size, divided=True)
    yield Kept("attention's output", a * model.query_size, divided=True)
    yield from _scores(job)


def _scores(job: Job) -> Iterator[Kept]:
    model, a = job.model, job.product
    if job.attention == "fused":
        yield Kept("logarithms of sums", 4 * model.heads, divided=True)
        return
    square = model.heads * job.sequence_length
    yield Kept("softmax", (FLOAT + (a if job.casts else 0)) * square, divided=True)
    if model.attention_dropout:
        yield Kept("dropout of scores", (1 + a) * square, divided=True)


def mlp(job: Job) -> Iterator[Kept]:
    """Yield what a dense MLP keeps after its norm."""
    yield Kept("MLP", (4 if job.model.gated else 2) * job.product * job.model.intermediate_size, divided=True)


def experts(job: Job) -> Iterator[Kept]:
    """Yield what a block's experts keep after its norm, each token sent to `experts_per_token` of them."""
    model = job.model
    chosen, hidden, inner = model.experts_per_token, model.hidden_size, model.expert_size
    yield Kept("router", 4 * model.experts + 36 * chosen, divided=True)
    yield Kept("experts' input and output", 2 * job.product * hidden * chosen, divided=True)
    yield Kept("experts", 4 * job.product * inner * chosen, divided=True)


def block(job: Job, *, sparse: bool = False) -> list[Kept]:
    """List what a block keeps where nothing is made anew."""
    model = job.model
    kept = [*norm(job, 3 if model.gated else 1), *attention(job)]
    second = list(norm(job, 1 if sparse or not model.gated else 2))
    if model.parallel_residual:
        second = second[-1:]  # one tensor is both norms' input
    kept += [*second, *(experts(job) if sparse else mlp(job))]
    if model.hidden_dropout:
        kept.append(Kept("dropout", 2 * model.hidden_size, divided=True))
    return kept


def kept_by(kept: list[Kept], layout: Layout) -> float:
    """Return the bytes of a token that one GPU keeps of a block which is not made anew as a whole."""
    return sum(each.bytes / (layout.tensor if each.divided else 1) for each in kept)


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
    inputs = (dense + sparse) * FLOAT * job.model.hidden_size / layout.tensor
    total = dense * kept_by(block(job), layout) if dense else 0.0
    if sparse:
        total += sparse * kept_by(block(job, sparse=True), layout)
    return layout.waiting(job) * (layout.again * inputs + (1 - layout.again) * total)
