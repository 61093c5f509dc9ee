"""Memory that DeepSpeed's ZeRO takes beside the states: buffers, what is offloaded, what NVMe leaves in memory.

Held to the live tensors of two processes on CPUs, and to the files on the disk (docs/sizing.md)."""

from argosy.model.train.sizing.job import FLOAT, Layout

BUCKET = 500_000_000  # numbers of reduce_bucket_size and allgather_bucket_size, by default
LIVE = 1_000_000_000  # and of stage3_max_live_parameters
AHEAD, AT_ONCE, GROUP = 5, 4, 10**9  # buffers of NVMe: weights, tensors of the optimizer; numbers of such a tensor
STAYING = 10**9  # numbers of a process's weights that are in memory too (max_in_cpu)


def buckets(layout: Layout, count: float) -> dict[str, float]:
    """Return the bytes of buffers by moment of a step. `count`: parameters of the model.

    The buffer of gradients has its full size for any model; beside it is what it is copied to before it is sent, and at
    the update a float32 copy of a group's gradients."""
    bucket, share, half = min(count, BUCKET), count / layout.shards, layout.gathered < FLOAT
    if layout.zero == 3:
        live, buffer = layout.gathered * min(count, LIVE), FLOAT * BUCKET
        return {"loss": buffer + live, "backward": buffer + max(live, 2.0 * FLOAT * bucket),
                "update": buffer + FLOAT * min(share, GROUP)}
    backward = {0: FLOAT * bucket, 1: FLOAT * (bucket if half else BUCKET),
                2: layout.gathered * (BUCKET + bucket) + (FLOAT * bucket if half else 0.0)}
    update = max(layout.gathered * bucket, FLOAT * share) if layout.zero else 0.0
    kept = layout.gathered * BUCKET if layout.zero == 2 else 0.0
    return {"loss": 0.0, "backward": backward[layout.zero], "update": kept + update}


def offloaded(layout: Layout, count: float, largest: float, states: float, *,
              accumulates: bool) -> tuple[float, float]:
    """Return the bytes in the machine's memory and on NVMe of what is offloaded, and of its gradients.

    Stage 3 has these once more, as they are summed; stages 1 and 2 have the weights, and 2 gradients of micro-batches.

    Args:
        count: parameters of the model.
        largest: numbers of its largest weight.
        states: bytes of the optimizer, and of the weights where these are offloaded too.
        accumulates: whether a step has several micro-batches."""
    share, weights = count / layout.shards, layout.offload == "all"
    more = FLOAT if layout.zero == 3 else layout.gathered + (FLOAT if layout.zero == 2 and accumulates else 0)
    states += FLOAT * share
    if not layout.nvme:
        return states + more * share, 0.0
    stays = FLOAT * min(share, STAYING) if weights else 0.0
    return more * share + stays + locked(largest / layout.shards, share, weights=weights), states


def locked(largest: float, share: float, *, weights: bool) -> float:
    """Return the bytes that a process locks in memory for buffers of NVMe. `largest`, `share`: numbers of its part of
    the largest weight, and of all that are trained; `weights`: whether these are there, and not the optimizer alone."""
    group = min(share, GROUP + largest)  # which is closed by the weight that fills it
    return FLOAT * ((AHEAD * largest + group * (share > GROUP) if weights else 0) + AT_ONCE * group)
