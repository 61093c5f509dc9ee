"""The planner's answer about one job on one type of GPU, as data and as tables in plain words; and the bytes that a GPU
sends to others in an optimizer step, by layout.

A ring sends (n - 1) / n of what it gathers or scatters, and both for a sum over all (Patarasuk & Yuan 2009); ZeRO's
volumes are those of section 7 of its paper, tensor parallelism's those of Shoeybi et al. 2019."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from argosy.corpus.text.display import columns, duration
from argosy.model.train.sizing.advice import gigabytes, held
from argosy.model.train.sizing.architecture import Architecture
from argosy.model.train.sizing.deepspeed import BUCKET
from argosy.model.train.sizing.gpus import Gpu, bubble, estimate, forward_flops, intensity, six_n_d, training_flops
from argosy.model.train.sizing.job import FLOAT, Job, Layout, read_job, read_layout
from argosy.model.train.sizing.layouts import Proposal, Proposals
from argosy.model.train.sizing.memory import memory, on_gpu, parameters_on_gpu, uncut


@dataclass(frozen=True)
class Question:
    """Inputs of a plan beside the job: GPUs and assumptions."""

    gpu: Gpu
    gpus: int
    per_node: int
    mfu: float
    price: float


def short(number: float) -> str:
    """`8.03 B`, `1.05 M`, `3,072`: a count, with three digits that count."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.3g} {letter}" if number < 1000 * size else f"{number / size:,.0f} {letter}"
    return f"{number:,.0f}"


def as_data(job: Job, asked: Question, found: Proposals) -> dict[str, Any]:
    """Return all numbers as JSON has them; bytes, FLOPs, seconds and dollars."""
    model = job.model
    parts = dict.fromkeys((weight.part for weight in model.weights()), 0)
    for weight in model.weights():
        parts[weight.part] += weight.size
    exact = 3 * forward_flops(model, job.tokens, job.sequence_length)
    return {
        "parameters": {"total": model.parameters(), "active": model.active_parameters, **parts},
        "job": {name: value for name, value in asdict(job).items() if name != "model"},
        "gpu": asdict(asked.gpu) | {"price": asked.price}, "gpus": asked.gpus, "mfu": asked.mfu,
        "flops": {"6nd": six_n_d(model, job.tokens), "exact": exact},
        "fitting": [_proposal(each, asked) for each in found.fitting],
        "failing": [{"layout": each.name, "bytes": each.memory.total, "parts": dict(each.memory.parts)}
                    for each in found.failing]}


def _proposal(each: Proposal, asked: Question) -> dict[str, Any]:
    time = estimate(each.job, each.layout, asked.gpu, asked.mfu, asked.price)
    return {
        "name": each.name, "layout": asdict(each.layout), "micro_batch_size": each.job.micro_batch_size,
        "bytes": each.memory.total, "parts": dict(each.memory.parts), "moment": each.memory.moment,
        "cpu_bytes": each.memory.cpu, "disk_bytes": each.memory.disk, "bubble": bubble(each.job, each.layout),
        "intensity": intensity(each.job, each.layout),
        "sent": [asdict(sent) | {"seconds": sent.seconds(asked.gpu)}
                 for sent in traffic(each.job, each.layout, asked.per_node)],
        **asdict(time)}


def in_words(job: Job, asked: Question, found: Proposals, hints: Mapping[str, str]) -> str:
    """Return tables for a person. `hints`: how a layout is set, by its name."""
    sections = [_model(job), _layouts(job, asked, found, hints)]
    if found.fitting or len(found.failing) == 1:  # or the one layout that was asked about
        best = (*found.fitting, *found.failing)[0]
        sections += [_memory(best, asked), _work(best, asked), _sent(best, asked)]
    return "\n\n".join(section for section in sections if section)


def _model(job: Job) -> str:
    model = job.model
    total, active = model.parameters(), model.active_parameters
    sparse = f", {short(active)} of them active for a token" if active < total else ""
    steps = -(-job.tokens // (job.global_batch_size * job.sequence_length))
    sizes: dict[str, int] = {}
    for weight in model.weights():
        sizes[weight.part] = sizes.get(weight.part, 0) + weight.size
    parts = ", ".join(f"{name} {short(size)}" for name, size in sizes.items())
    lines = [f"{model.kind} of {short(total)} parameters{sparse}: {parts}",
             f"{short(job.tokens)} tokens ({job.tokens / active:.3g} a parameter; 20 are compute-optimal, Hoffmann et "
             f"al. 2022) in {short(steps)} steps of {job.global_batch_size} x {job.sequence_length}",
             f"{job.optimizer}, {job.precision}"]
    return "\n".join(lines)


def _layouts(job: Job, asked: Question, found: Proposals, hints: Mapping[str, str]) -> str:
    gpu = asked.gpu
    where = "one GPU" if asked.gpus == 1 else f"{asked.gpus} GPUs"
    rows = [("LAYOUT", "MICRO-BATCH", "GB", "", "")]
    for each in (*found.failing, *found.fitting):
        verdict = "fits" if each.fits else "too much"
        note = hints.get(each.name, "") if each.fits else held(each.memory)
        rows.append((each.name, str(each.job.micro_batch_size), gigabytes(each.memory.total), verdict, note))
    all_, fill = gigabytes(gpu.memory), gigabytes(gpu.usable)
    head = f"{where} of type {gpu.name}: {all_} GB each, {fill} of which may be filled"
    last = ""
    if len(found.failing) == 1 and not found.fitting:
        last = "\nThis layout does not fit: leave out its engine and processes, and others are tried."
    elif not found.fitting:
        last = ("\nNone of these fits: take more GPUs, a smaller model, or sequence_parallel, which divides samples "
                "and is not tried.")
    return f"{head}\n{columns(rows, right=(1, 2))}{last}"


def _memory(best: Proposal, asked: Question) -> str:
    moment = best.memory.moment.replace("_", " ")
    rows = [(name, gigabytes(size)) for name, size in best.memory.parts.items() if size]
    rows.append(("all", gigabytes(best.memory.total)))
    places = {"the machine's memory": best.memory.cpu, "on NVMe": best.memory.disk}
    rows += [(f"and {place}, for each GPU", gigabytes(size)) for place, size in places.items() if size]
    return f"{best.name}: GB of a GPU at its peak, {'at' if moment != 'backward' else 'in'} the {moment}\n" + columns(
        rows, right=(1,))


def _work(best: Proposal, asked: Question) -> str:
    job, layout, gpu = best.job, best.layout, asked.gpu
    found = estimate(job, layout, gpu, asked.mfu, asked.price)
    time = duration(found.seconds) if found.seconds < 100 * 3600 else f"{found.seconds / 86400:,.1f} days"
    ratio = intensity(job, layout)
    slower = "" if job.casts else "; float32 takes several times as long: give its own --mfu"
    bound = "bound by arithmetic" if ratio >= gpu.ridge else "bound by memory, so that the MFU will be lower"
    rows = [("FLOPs of the forward and the backward", f"{training_flops(job, layout, job.tokens):.3g}",
             f"6ND: {six_n_d(job.model, job.tokens):.3g}"),
            ("operations a byte of the largest product", f"{ratio:.0f}", f"{gpu.name} needs {gpu.ridge:.0f}: {bound}"),
            ("time", time, f"at MFU {asked.mfu:g} of the bfloat16 peak, which is assumed (--mfu)" + slower),
            ("tokens a day", short(found.tokens_a_day), ""),
            ("cost", f"${found.cost:,.2f}", f"at ${asked.price:g} a GPU and hour, which is assumed (--price)")]
    if waits := bubble(job, layout):
        other = layout.recompute == "none" and not layout.zero_bubble
        less = f"; {waits / 3:.1%} with pipeline_schedule=zero_bubble" if other else ""
        rows.append(("the pipeline waits", f"{waits:.1%}", f"of the time that it works{less}"))
    return columns(rows, right=(1,))


def _sent(best: Proposal, asked: Question) -> str:
    rows = [("A GPU SENDS IN A STEP", "GB", "", "SECONDS, NOTHING HIDDEN")]
    sent = traffic(best.job, best.layout, asked.per_node)
    rows += [(f"{each.kind}: {each.purpose}", gigabytes(each.bytes), "between nodes" if each.nodes else "in a node",
              f"{each.seconds(asked.gpu):.3g}") for each in sent]
    if len(rows) == 1:
        return ""
    steps = max(1, best.job.tokens / (best.job.global_batch_size * best.job.sequence_length))
    work = estimate(best.job, best.layout, asked.gpu, asked.mfu, asked.price).seconds / steps
    last = ""
    if sum(each.seconds(asked.gpu) for each in sent) > work:
        last = f"\nThat is longer than a step's {work:.3g} seconds of work: the time above will not be reached."
    return columns(rows, right=(1, 3)) + last


def phase_rows(model: Architecture, phases: Mapping[str, tuple[Mapping[str, Any], int, bool]]) -> str:
    """Return a line for each phase of training: its config's fields, its processes, and whether it has GPUs."""
    rows = [("TRAINING", "PARAMETERS", "TOKENS", "A PARAMETER", "FLOPS", "GB A PROCESS")]
    for name, (config, processes, gpu) in phases.items():
        job, layout = read_job(config, model, on_cpu=not gpu), read_layout(config, processes, on_cpu=not gpu)
        found = memory(job, layout) if gpu else memory(job, layout, context=0)
        rows.append((name, short(model.parameters()), short(job.tokens), f"{job.tokens / model.active_parameters:.3g}",
                     f"{training_flops(job, layout, job.tokens):.2g}", gigabytes(found.total)))
    return columns(rows, right=range(1, 6))


_LAYERS = 9  # of a block of Llama's type, each with a weight: seven matrices and two norms


@dataclass(frozen=True)
class Sent:
    """Traffic that one GPU sends in a step for one purpose."""

    kind: str
    """The collective."""
    purpose: str
    bytes: float
    nodes: bool
    """Whether it goes between nodes."""
    messages: float
    """Collectives of a step."""

    def seconds(self, gpu: Gpu) -> float:
        """Return the time that it takes, nothing of it hidden behind arithmetic."""
        return self.bytes / (gpu.network if self.nodes else gpu.link) + self.messages * gpu.latency


def traffic(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    """List what a GPU sends in a step, the most first. `per_node`: GPUs of a node."""
    found = [*_data(job, layout, per_node), *_tensor(job, layout), *_pipeline(job, layout, per_node),
             *_sequence(job, layout, per_node), *_experts(job, layout, per_node)]
    return sorted((sent for sent in found if sent.bytes), key=lambda sent: -sent.bytes)


def _data(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    count, ranks = parameters_on_gpu(job, layout), layout.shards
    far = ranks * layout.tensor * layout.pipeline > per_node
    size = FLOAT * count  # of the weights, and of the gradients
    moved = sum(own * (shards - 1) / shards for _, own, shards in on_gpu(job, layout))  # fewer processes share experts
    gathered, buckets = _messages(job, layout, size)
    if layout.zero == 0:
        return [Sent("all-reduce", "gradients", 2 * FLOAT * moved, far, buckets)]
    # sharded gradients are summed after each micro-batch; a pipeline's stage is gathered once, and summed once
    passes = layout.accumulation(job) if layout.pipeline == 1 else 1
    sums = passes if layout.zero >= 2 else 1 + (layout.gathered < FLOAT)  # each receives all in DeepSpeed's bf16
    found = [Sent("reduce-scatter", "gradients", sums * FLOAT * moved, far, sums * buckets)]
    times = 2 * passes if layout.zero == 3 and layout.pipeline == 1 and layout.reshard else 1
    purpose = "weights" + (", forward and backward" if times > 1 else "")
    weights = times * layout.sent(job) * moved
    found.append(Sent("all-gather", purpose, weights, far, times * gathered))
    copies = layout.data // ranks
    if copies > 1:
        shard = 2 * (copies - 1) / copies * size / ranks
        found.append(Sent("all-reduce", "gradients of the copies", shard, layout.gpus > per_node, buckets))
    return found


def _messages(job: Job, layout: Layout, gradients: float) -> tuple[float, float]:
    """Return the collectives that gather the weights once, and those that sum the gradients once.

    FSDP2 and ddp send a block at a time, and what is around the blocks; ZeRO-3 gathers each layer of a block by itself;
    the others send buckets of gradients, or all at once."""
    if layout.shards * (layout.data // layout.shards) == 1:
        return 0.0, 0.0
    blocks = -(-job.model.layers // layout.pipeline)
    if layout.engine in ("ddp", "fsdp"):
        return blocks + 1.0, blocks + 1.0
    if layout.engine == "torch":
        return 1.0, 1.0
    return (_LAYERS * blocks + 3.0 if layout.zero == 3 else 1.0), 1.0 + gradients // (FLOAT * BUCKET)


def _tokens(job: Job, layout: Layout) -> float:
    """Count the tokens that a GPU's attention sees in a step, before sequence parallelism exchanges heads."""
    return layout.accumulation(job) * layout.micro_batch(job) * job.sequence_length / layout.context


def _tensor(job: Job, layout: Layout) -> list[Sent]:
    ring = (layout.tensor - 1) / layout.tensor
    blocks = -(-job.model.layers // layout.pipeline)
    times = 4 + 2 * layout.again  # there and back around attention and feed-forward, each way
    width = FLOAT + job.product  # gathered is the norm's output, in float32, and summed the product
    total = times * blocks * ring * _tokens(job, layout) * job.model.hidden_size * width
    messages = times * blocks * layout.accumulation(job) if layout.tensor > 1 else 0.0
    return [Sent("all-gather, reduce-scatter", "activations of tensor parallelism", total, False, 2 * messages),
            Sent("all-reduce", "gradients of what tensor parallelism leaves whole", 2 * ring * uncut(job, layout),
                 False, 1.0)]


def _sequence(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    """Count Ulysses' queries, keys and values, in float32, and what attention makes of them, there and back; or keys
    and values to all, which the backward gathers again, and their gradients."""
    model, away, times = job.model, layout.context - 1, 2 + layout.again
    kind, purpose, count = "all-to-all", "heads of sequence parallelism", 4.0
    width = (FLOAT * (model.query_size + 2 * model.kv_size) + job.product * model.query_size) / layout.context
    if layout.whole_keys:
        kind, purpose, count = "all-gather, reduce-scatter", "keys and values of whole samples", 1.0
        times, width = 3 + layout.again, job.product * 2 * model.kv_size
    blocks = -(-model.layers // layout.pipeline)
    return [Sent(kind, purpose, times * blocks * away * width * _tokens(job, layout) / layout.tensor,
                 layout.context * layout.tensor > per_node, count * times * blocks * layout.accumulation(job))]


def _pipeline(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    if layout.pipeline == 1:
        return []
    sent = 2 * FLOAT * _tokens(job, layout) * job.model.hidden_size / layout.tensor
    return [Sent("point to point", "activations and their gradients between stages", sent, layout.gpus > per_node,
                 2.0 * layout.accumulation(job))]


def _experts(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    blocks = job.model.sparse_layers / layout.pipeline
    away = (layout.expert - 1) / layout.expert
    width = job.product * job.model.hidden_size * job.model.experts_per_token / layout.tensor
    total = 4 * blocks * away * width * _tokens(job, layout)  # there and back, twice
    return [Sent("all-to-all", "tokens to experts and back", total, layout.expert * layout.tensor > per_node,
                 4 * blocks * layout.accumulation(job))]
