"""Memory of one GPU at the moment of the step that needs the most, by what it holds.

States: Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion parameter models", figure 1."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from argosy.model.train.sizing.activations import block_bytes, norm, stored_bytes
from argosy.model.train.sizing.architecture import Weight
from argosy.model.train.sizing.deepspeed import buckets, offloaded
from argosy.model.train.sizing.job import FLOAT, Job, Layout

CUDA_CONTEXT = 1.3e9  # context and kernels, as "Model training anatomy" of transformers' documentation measures them
HIDDEN = ("attention", "mlp", "router", "experts")  # parts whose matrices have an optimizer of their own
WHOLE, WIDENED = 2**24, 60  # numbers that argosy/model/train/optim/narrow.py widens at once, bytes of each
CHUNK = 256  # tokens whose logits argosy/model/train/layers/loss.py holds at once


@dataclass(frozen=True)
class Memory:
    """Bytes of a GPU at the peak of a step."""

    moment: str
    """When that is: `loss`, `backward` (as it enters the blocks), `last_block`, `end_of_backward` or `update`."""
    parts: Mapping[str, float]
    """Bytes by what they are of."""
    cpu: float = 0.0
    """Bytes of the machine's memory that offload takes, of this GPU's process."""
    disk: float = 0.0
    """Bytes that it takes on NVMe."""

    @property
    def total(self) -> float:
        return sum(self.parts.values())


def on_gpu(job: Job, layout: Layout) -> Iterator[tuple[Weight, float, int]]:
    """Yield each weight, how many of its parameters a GPU computes with, and the processes that share these.

    The stage of a pipeline is the first one, which has the embedding and the most activations."""
    stage = -(-job.model.layers // layout.pipeline) / job.model.layers
    for weight in job.model.weights():
        size, shards = float(weight.size), layout.shards
        if weight.part == "head" and layout.pipeline > 1:
            continue
        if weight.part != "embedding":
            size *= 1.0 if weight.part == "head" else stage
        if weight.part in ("attention", "mlp"):  # the vocabulary's are whole, as the loss takes few tokens
            size /= layout.tensor
        if weight.part == "experts":
            size /= layout.expert
            shards = max(1, shards // layout.expert)
        yield weight, size, shards


def parameters_on_gpu(job: Job, layout: Layout) -> float:
    """Return the parameters that a GPU computes with, before ZeRO."""
    return sum(size for _, size, _ in on_gpu(job, layout))


def uncut(job: Job, layout: Layout) -> float:
    """Return the bytes of a GPU's gradients of what tensor parallelism leaves whole."""
    return sum(FLOAT * size / (shards if layout.zero >= 2 else 1) for weight, size, shards in on_gpu(job, layout)
               if weight.part not in ("attention", "mlp"))


def moments(job: Job, weight: Weight) -> float:
    """Return the bytes that the optimizer keeps of a parameter, its float32 copy aside, rounding's with Kahan's."""
    hidden = weight.is_matrix and weight.part in HIDDEN
    if job.optimizer == "muon" and hidden:
        return FLOAT  # Jordan et al. 2024: a momentum alone
    if job.optimizer == "adafactor":  # Shazeer & Stern 2018: a mean for each row and column
        return 4 * (weight.rows + weight.columns) / (weight.rows * weight.columns) if weight.is_matrix else 4
    if job.optimizer == "adamw_8bit" and weight.is_matrix:
        return 2 + 8 / 256  # Dettmers et al. 2022: a float32 scale for a block of 256
    if job.optimizer == "galore" and hidden:  # Zhao et al. 2024: two moments and the projector
        short, long = sorted((weight.rows, weight.columns))
        return job.galore_rank * FLOAT * (2 + short / long)
    return (3 if job.optimizer == "adamw_bf16" and job.compensated else 2) * job.number


def states(job: Job, layout: Layout) -> dict[str, float]:
    """Return the bytes of weights, gradients and optimizer that a GPU holds, as ZeRO's stage divides them."""
    copy = FLOAT if layout.zero and layout.engine == "zero" else 0  # ZeRO's own partition
    sizes = (layout.gathered, FLOAT) if copy else (job.number, job.number)
    if copy and layout.zero == 1 and layout.gathered < FLOAT:  # those of a micro-batch, beside their sum
        sizes = layout.gathered, FLOAT + layout.gathered
    found = dict.fromkeys(("weights", "gradients", "optimizer"), 0.0)
    for weight, count, shards in on_gpu(job, layout):
        kept = copy + moments(job, weight)
        for stage, name, each in ((3, "weights", sizes[0]), (2, "gradients", sizes[1]), (1, "optimizer", kept)):
            found[name] += each * count / (shards if layout.zero >= stage else 1)
    if layout.engine == "local":  # the model of the last round, and the momentum of rounds
        found["optimizer"] += 2 * FLOAT * parameters_on_gpu(job, layout)
    return found


def memory(job: Job, layout: Layout, *, context: float = CUDA_CONTEXT) -> Memory:
    """Return what a GPU holds at the peak of a step after the first. `context`: bytes beside all tensors."""
    held, cpu, disk = states(job, layout), 0.0, 0.0
    if layout.offload != "none":
        away = ["optimizer", "weights"] if layout.offload == "all" else ["optimizer"]
        accumulates = layout.accumulation(job) > 1
        largest = max(weight.rows * weight.columns * (job.model.experts if weight.part == "experts" else 1)
                      for weight in job.model.weights())
        count, kept = parameters_on_gpu(job, layout), sum(held[name] for name in away)
        cpu, disk = offloaded(layout, count, largest, kept, accumulates=accumulates)
        if layout.zero > 1 or not accumulates:  # else gradients wait on the GPU for the last micro-batch
            away.append("gradients")
        held |= dict.fromkeys(away, 0.0)
    common = {"weights": held["weights"], "optimizer": held["optimizer"], "CUDA context": context}
    found = [Memory(at.__name__.removeprefix("_"), {**common, **at(job, layout, held["gradients"])}, cpu, disk)
             for at in (_loss, _backward, _last_block, _end_of_backward, _update)]
    return max(found, key=lambda each: each.total)


def _tokens(job: Job, layout: Layout) -> int:
    return layout.micro_batch(job) * job.sequence_length // layout.context


def _casts(job: Job, layout: Layout, *, whole: bool) -> float:
    """Count the copies of matrices in the products' precision, of all blocks or of one."""
    if not job.casts or layout.sent(job) < FLOAT:
        return 0.0
    inner = sum(size for weight, size, _ in on_gpu(job, layout)
                if weight.is_matrix and weight.part not in ("embedding", "head"))
    if whole:  # each micro-batch that waits has its own
        return job.product * inner * layout.waiting(job)
    return job.product * inner / -(-job.model.layers // layout.pipeline)


def _activations(job: Job, layout: Layout) -> float:
    tokens, model = _tokens(job, layout), job.model
    last = sum(each.bytes for each in norm(job, 0)) / layout.tensor if layout.pipeline == 1 else 0.0
    mask = 0.0
    if job.document_mask:  # an additive one of each pair of a sample's tokens
        mask = tokens * job.sequence_length * job.product
    rotary = 2 * job.sequence_length * model.head_dim * FLOAT
    return tokens * (stored_bytes(job, layout) + last) + mask + rotary


def _loss(job: Job, layout: Layout, gradients: float) -> dict[str, float]:
    """Count the moment at which the loss makes its gradients."""
    return {"activations": _activations(job, layout), "gradients": _waiting(job, layout, gradients),
            "logits and loss": _logits(job, layout), "communication": _buffers(job, layout)["loss"],
            "copies of weights": (1 - layout.again) * _casts(job, layout, whole=True)}


def _logits(job: Job, layout: Layout) -> float:
    """Count what the output layer and the loss hold beside its weights."""
    hidden, tokens = job.model.hidden_size, _tokens(job, layout) / layout.tensor
    if layout.pipeline > 1:  # they are on the last stage, which holds the fewest activations
        return 0.0
    vocab = job.model.vocab_size
    copies = job.product if job.casts else 0
    rows = tokens * hidden * (FLOAT + copies + job.product)
    chunk = min(tokens, CHUNK) * vocab * (4 + copies)
    work = 2 * chunk if tokens > CHUNK else chunk  # one is there until the next is made
    kept = FLOAT + copies * (job.number == FLOAT)  # the gradient, and the weights where they are not that already
    return rows + vocab * hidden * kept + max(work, chunk + job.product * vocab * hidden)


def _head(job: Job, layout: Layout) -> float:
    return FLOAT * job.model.vocab_size * job.model.hidden_size


def _backward(job: Job, layout: Layout, gradients: float) -> dict[str, float]:
    """Count the moment at which the backward enters the blocks: all activations, and what runs through the last one."""
    running = _running(job, layout)
    if layout.again == 1:  # of fewer blocks, the last one is not
        running += block_bytes(job, layout) - FLOAT * job.model.hidden_size  # its input is kept anyway
    return {"activations": _activations(job, layout) + _tokens(job, layout) * running,
            "gradients": _waiting(job, layout, gradients),
            "logits and loss": _head(job, layout) if layout.pipeline == 1 else 0.0,
            "communication": _buffers(job, layout)["backward"],
            "copies of weights": max((1 - layout.again) * _casts(job, layout, whole=True),
                                     _casts(job, layout, whole=False))}


def _waiting(job: Job, layout: Layout, gradients: float) -> float:
    """Count the gradients that are there before a backward begins; a pipeline's stages are whole to the last one."""
    if layout.engine in ("ddp", "fsdp") and layout.pipeline > 1:
        return 0.0
    before = layout.accumulation(job) > 1 or (layout.zero >= 2 and layout.engine == "zero")
    return gradients if before else 0.0


def _running(job: Job, layout: Layout) -> float:
    """Return the bytes of a token of the gradients that run through a block."""
    model = job.model
    inner = model.expert_size * model.experts_per_token if model.sparse_layers else model.intermediate_size
    keys = 4 * model.kv_size * layout.context if layout.whole_keys else 0  # and values, and the gradients of both
    return FLOAT * model.hidden_size + job.product * (inner + keys) / layout.tensor


def _last_block(job: Job, layout: Layout, gradients: float) -> dict[str, float]:
    """Count the moment at which the backward leaves the blocks, so that all their gradients are there."""
    kept = _running(job, layout) + block_bytes(job, layout)
    return {"activations": _tokens(job, layout) * kept, "gradients": gradients,
            "logits and loss": _head(job, layout) if layout.pipeline == 1 else 0.0,
            "communication": _buffers(job, layout)["backward"], "copies of weights": _casts(job, layout, whole=False)}


def _end_of_backward(job: Job, layout: Layout, gradients: float) -> dict[str, float]:
    """Count the moment at which the embedding's gradient is added to the output layer's, where they are one weight, or,
    on a pipeline's first stage, to that of the micro-batches before, beside those that wait."""
    buffers, staged = _buffers(job, layout), layout.pipeline > 1
    if not staged:
        added = 2 * _head(job, layout) if job.model.tied else 0.0
        return {"gradients": gradients + added, "communication": buffers.get("end", buffers["backward"])}
    return {"activations": _activations(job, layout) * (1 - 1 / layout.waiting(job)),
            "gradients": _waiting(job, layout, gradients) + _head(job, layout), "communication": buffers["backward"]}


def _update(job: Job, layout: Layout, gradients: float) -> dict[str, float]:
    work = {"muon": _orthogonalization, "galore": _decomposition, "adamw_bf16": _widening}.get(job.optimizer)
    return {"gradients": gradients, "communication": _buffers(job, layout)["update"],
            "optimizer's work": work(job, layout) if work else 0.0}


def _widening(job: Job, _: Layout) -> float:
    """Count what AdamW in bfloat16 makes in float32 of a piece of a weight."""
    return WIDENED * min(WHOLE, max(each.rows * each.columns for each in job.model.weights()))


def _decomposition(job: Job, _: Layout) -> float:
    """Count what GaLore makes of a gradient for a projector: two copies, singular vectors of both sides, the work of
    LAPACK (three squares of the shorter side)."""
    count = {"experts": job.model.experts}
    return max(FLOAT * count.get(each.part, 1) * (3 * each.rows * each.columns + 4 * min(each.rows, each.columns)**2)
               for each in job.model.weights() if each.is_matrix and each.part in HIDDEN)


def _orthogonalization(job: Job, layout: Layout) -> float:
    """Count what Muon makes of the matrices of one shape at once: two copies in float32, two in bfloat16, two products
    of the matrices with themselves, and the update of the shape before."""
    shapes: dict[tuple[int, int], float] = {}
    for weight, count, _ in on_gpu(job, layout):
        if weight.is_matrix and weight.part in HIDDEN:
            shapes[weight.rows, weight.columns] = shapes.get((weight.rows, weight.columns), 0.0) + count
    most = before = 0.0
    for shape, count in shapes.items():
        most = max(most, before + 12 * count + 4 * count * min(shape) / max(shape))
        before = 4 * count
    return most


def _gathered(job: Job, layout: Layout, count: float, blocks: int) -> dict[str, float]:
    """Count FSDP2's whole weights and gradients: of what is around the blocks all the time; of the block at work, with
    the next one as it arrives, the gradients of the one before as they leave, in float32, and its own of the larger
    half, whose activations are there. Blocks that are gathered once stay from one micro-batch to the next."""
    around, attention = (sum(size for weight, size, _ in on_gpu(job, layout) if weight.part in parts)
                         for parts in (("embedding", "head"), ("attention",)))
    block, half = (count - around) / blocks, max(attention, count - around - attention) / blocks
    each = layout.sent(job)
    here, stay = each * block, 0.0 if layout.reshard else each * (count - around)
    return {"loss": job.number * around + (stay or here),
            "backward": job.number * around + (stay or 2 * here) + FLOAT * (block + half),
            "end": (FLOAT + job.number) * around + FLOAT * block + stay}


def _buffers(job: Job, layout: Layout) -> dict[str, float]:
    """Count what is gathered or sent at each moment."""
    count = parameters_on_gpu(job, layout)
    none = {"loss": 0.0, "backward": 0.0, "update": uncut(job, layout) if layout.tensor > 1 else 0.0}
    if layout.data * layout.context == 1 and not (layout.engine == "zero" and layout.zero):
        return none
    if layout.engine in ("torch", "local"):  # all gradients as one tensor
        return {**none, "update": FLOAT * count}
    blocks = -(-job.model.layers // layout.pipeline)
    if layout.engine in ("ddp", "fsdp") and layout.pipeline == 1:  # ddp is FSDP2 with a shard of all
        return {**none, **_gathered(job, layout, count, blocks)}
    if layout.engine in ("ddp", "fsdp"):  # a pipeline's stages stay until the last micro-batch has passed
        both = (layout.sent(job) + FLOAT) * count
        return {**none, "loss": both, "backward": both}
    return buckets(layout, count)
